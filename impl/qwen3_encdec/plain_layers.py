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
_NONE = type(None)
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


def plain_layers(
    layers: Iterable[nn.Module], norm: nn.Module, dtype: torch.dtype, eps: float
) -> tuple[list[PlainLayer], torch.Tensor] | None:
    """The weights of all layers and of the norm behind them; None unless calling the modules would add nothing to them.

    Every module and every parameter has to be of its very class, with no hook, no `forward` of its own and none that
    was exchanged in its class; nothing in training, the norms of `dtype` and with `eps`.
    """
    any_module: Any = nn.modules.module
    if any_module._has_any_global_hook() or any(kind.forward is not known for kind, known in _FORWARDS):
        return None
    try:
        return [_plain_layer(layer, dtype, eps) for layer in layers], _norm(norm, dtype, eps)
    except _NotPlainError:
        return None


def _plain_layer(layer: nn.Module, dtype: torch.dtype, eps: float) -> PlainLayer:
    parts = _plain(layer, Qwen3DecoderLayer)._modules
    attention, mlp = _plain(parts["merged_attn"], Qwen3MergedAttention), _plain(parts["mlp"], Qwen3MLP)
    projections, products = attention._modules, mlp._modules
    head_norms = None
    if attention.use_qk_norm:
        head_norms = _norm(projections["q_norm"], dtype, eps), _norm(projections["k_norm"], dtype, eps)
    activation = products["act_fn"]
    return PlainLayer(
        _norm(parts["input_layernorm"], dtype, eps),
        _linear(projections["q_proj"]),
        _linear(projections["k_proj"]),
        _linear(projections["v_proj"]),
        head_norms,
        attention.scaling,
        _linear(projections["o_proj"]),
        _norm(parts["post_attention_layernorm"], dtype, eps),
        _linear(products["gate_proj"]),
        _linear(products["up_proj"]),
        _plain(activation, type(activation)).forward,
        _linear(products["down_proj"]),
    )


def _plain(module: Any, kind: type[nn.Module]) -> Any:
    own = module.__dict__
    if type(module) is not kind or own["_forward_hooks"] or own["_forward_pre_hooks"] or own["training"]:
        raise _NotPlainError
    if "forward" in own or own.get("_compiled_call_impl") is not None:
        raise _NotPlainError
    return module


def _norm(module: Any, dtype: torch.dtype, eps: float) -> torch.Tensor:
    weight = _plain(module, Qwen3RMSNorm)._parameters.get("weight")
    # A linear layer refuses rows of another dtype by itself; a norm of another makes its result one of that.
    if type(weight) is not nn.Parameter or weight.dtype != dtype or module.variance_epsilon != eps:
        raise _NotPlainError
    return weight


def _linear(module: Any) -> Linear:
    parameters = _plain(module, Qwen3Linear)._parameters
    weight, bias = parameters.get("weight"), parameters["bias"]
    if type(weight) is not nn.Parameter or type(bias) not in (nn.Parameter, _NONE):
        raise _NotPlainError
    return weight, bias
