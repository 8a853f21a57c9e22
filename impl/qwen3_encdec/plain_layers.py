"""What the decoder's layers compute with, where their modules do what this package says and nobody watches them."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from .decoder_layer import Qwen3DecoderLayer
from .linear import Qwen3Linear
from .merged_attention import Qwen3MergedAttention
from .mlp import Qwen3MLP
from .norm import Qwen3RMSNorm

Linear = tuple[torch.Tensor, torch.Tensor | None]
_FORWARDS = [
    (kind, kind.forward) for kind in (Qwen3DecoderLayer, Qwen3MergedAttention, Qwen3MLP, Qwen3RMSNorm, Qwen3Linear)
]


class PlainLayer(NamedTuple):
    """A layer's weights in the order of their use: a norm's `[width]`, a linear layer's `[out, in]` and bias or None.

    `head_norms` are those of queries and keys, None in a model without; `act` is the MLP's activation.
    """

    input_layernorm: torch.Tensor
    q_proj: Linear
    k_proj: Linear
    v_proj: Linear
    head_norms: tuple[torch.Tensor, torch.Tensor] | None
    scaling: float
    o_proj: Linear
    post_attention_layernorm: torch.Tensor
    gate_proj: Linear
    up_proj: Linear
    act: Callable[[torch.Tensor], torch.Tensor]
    down_proj: Linear


class _NotPlainError(Exception):
    """A module does more than its class says, or something else."""


def plain_layers(layers: Iterable[nn.Module], dtype: torch.dtype, eps: float) -> list[PlainLayer] | None:
    """The weights of all layers; None unless nothing would be missed if their modules were not called.

    Every module and every parameter has to be of its very class, with no hook, no `forward` of its own and none that
    was exchanged in its class; the parameters of `dtype` and on the CPU, the norms' eps as given, nothing in training.
    """
    any_module: Any = nn.modules.module
    if any_module._has_any_global_hook() or any(kind.forward is not known for kind, known in _FORWARDS):
        return None
    try:
        return [_plain_layer(layer, dtype, eps) for layer in layers]
    except _NotPlainError:
        return None


def _plain_layer(layer: nn.Module, dtype: torch.dtype, eps: float) -> PlainLayer:
    if type(layer) is not Qwen3DecoderLayer:
        raise _NotPlainError
    _unwatched(layer)
    attention, mlp = _child(layer, "merged_attn", Qwen3MergedAttention), _child(layer, "mlp", Qwen3MLP)

    def norm(parent: nn.Module, name: str) -> torch.Tensor:
        module = _child(parent, name, Qwen3RMSNorm)
        if module.variance_epsilon != eps:
            raise _NotPlainError
        return _plain(module, "weight", dtype)

    def linear(parent: nn.Module, name: str) -> Linear:
        module = _child(parent, name, Qwen3Linear)
        return _plain(module, "weight", dtype), None if module._parameters["bias"] is None else _plain(
            module, "bias", dtype
        )

    return PlainLayer(
        norm(layer, "input_layernorm"),
        linear(attention, "q_proj"),
        linear(attention, "k_proj"),
        linear(attention, "v_proj"),
        (norm(attention, "q_norm"), norm(attention, "k_norm")) if attention.use_qk_norm else None,
        attention.scaling,
        linear(attention, "o_proj"),
        norm(layer, "post_attention_layernorm"),
        linear(mlp, "gate_proj"),
        linear(mlp, "up_proj"),
        _unwatched(mlp._modules["act_fn"]).forward,
        linear(mlp, "down_proj"),
    )


def _child(parent: nn.Module, name: str, kind: type[nn.Module]) -> Any:
    found = parent._modules.get(name)
    if type(found) is not kind:
        raise _NotPlainError
    return _unwatched(found)


def _unwatched(module: Any) -> Any:
    own = module.__dict__
    if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["training"]:
        raise _NotPlainError
    if "forward" in own or own.get("_compiled_call_impl") is not None:
        raise _NotPlainError
    return module


def _plain(module: nn.Module, name: str, dtype: torch.dtype) -> torch.Tensor:
    parameter = module._parameters.get(name)
    if type(parameter) is not nn.Parameter or parameter.dtype != dtype or not parameter.is_cpu:
        raise _NotPlainError
    return parameter
