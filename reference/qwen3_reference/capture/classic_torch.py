"""torch's own classic encoder as the reference: `nn.TransformerEncoder` behind two embeddings, both ways of norming.

Attention computes inside one function: it is made to give its weights of each head, and the tensors of its kernels are
taken as they pass, so that every tap is a number that the module itself computed or used. torch's fast path, which
rounds otherwise and empties padded rows, is off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from qwen3_golden import Array, ParityError, pb
from qwen3_reference.binding import attach, emit
from qwen3_reference.capture.softmax_check import additive
from qwen3_reference.checkpoints.classic_weights import classic_network

_MODULES = {"layers.{layer}.self_attn.out_proj": "layers.{layer}.self_attn"}
"""torch's attention never calls its last projection as a module: its output is the attention's."""

_NAMES = {"self_attn.qkv_proj.": "self_attn.in_proj_", "feed_forward.": ""}
"""Parts of canonical names that torch has otherwise."""


class _Kernels(TorchDispatchMode):
    """The kernels that run inside: name -> arguments and result of every call."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[str, list[tuple[Any, torch.Tensor]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the kernel and keep what it was given and gave."""
        result = func(*args, **(kwargs or {}))
        self.calls.setdefault(func.overloadpacket.__name__, []).append((args, result))
        return result


def _hand_over(attention: nn.Module, kernels: _Kernels, probs: torch.Tensor, hidden: torch.Tensor) -> None:
    """The taps inside of torch's attention, from its kernels: it keeps positions first, and heads beside the batch."""
    batch, heads, query, _ = probs.shape
    (_, scaled, keys), _ = kernels.calls["baddbmm"][0]
    (weights, values), context = kernels.calls["bmm"][0]
    queries = kernels.calls["mul"][0][0][0]
    if not torch.equal(weights.reshape(probs.shape), probs):
        raise ParityError(
            "nn.MultiheadAttention",
            "the weights that attention returns are not those that it used",
            expected="the first operand of its last batched product",
            got="other numbers",
            next_step="read torch's multi_head_attention_forward, which has changed",
            fault="harness bug",
        )
    # The bias may be added by itself: the last sum of this width is the projection.
    sums = [*kernels.calls.get("addmm", ()), *kernels.calls.get("add", ())]
    projected = [result for _, result in sums if result.shape[-1] == 3 * values.shape[-1] * heads][-1]
    emit(attention, "qkv_proj", projected.view(query, batch, -1).transpose(0, 1))
    for name, value in (("query", queries), ("key", keys.transpose(1, 2)), ("value", values)):
        emit(attention, name, value.reshape(batch, heads, query, -1))
    emit(attention, "mask", (hidden == 0)[:, None].expand(-1, query, -1))
    emit(attention, "scores", torch.bmm(scaled, keys).view(probs.shape))
    emit(attention, "probs", probs)
    emit(attention, "context", context.view(batch, heads, query, -1).transpose(1, 2))


@contextmanager
def _kernels_taken(attentions: Iterator[nn.Module]) -> Iterator[None]:
    """Inside, each attention hands over what passes its kernels; entered before the recorder's own hooks."""
    running: list[_Kernels] = []

    def before(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        running.append(_Kernels())
        running[-1].__enter__()  # type: ignore[no-untyped-call]
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def after(module: nn.Module, _args: Any, kwargs: dict[str, Any], output: Any) -> None:
        kernels = running.pop()
        kernels.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        _hand_over(module, kernels, output[1], kwargs["key_padding_mask"])

    with ExitStack() as undo:
        for attention in attentions:
            undo.callback(attention.register_forward_pre_hook(before, with_kwargs=True).remove)
            undo.callback(attention.register_forward_hook(after, with_kwargs=True).remove)
        yield


class Embedded(nn.TransformerEncoder):
    """torch's stack behind two embeddings, by the network's names."""

    def __init__(self, config: pb.ModelConfig) -> None:
        settings, width = config.classic_encoder, config.hidden_size
        layer = nn.TransformerEncoderLayer(
            width,
            config.num_attention_heads,
            config.intermediate_size,
            activation=config.hidden_act,
            layer_norm_eps=settings.layer_norm_eps,
            batch_first=True,
            norm_first=settings.norm_first,
        )
        norm = nn.LayerNorm(width, eps=settings.layer_norm_eps) if settings.norm_first else None
        super().__init__(layer, config.num_hidden_layers, norm, enable_nested_tensor=False)
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        self.embed_positions = nn.Embedding(config.max_position_embeddings, width)
        self.dropout = nn.Identity()
        self.scale = width**0.5 if settings.scale_embeddings else 1.0

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """`[batch, seq, hidden]`; `hidden [batch, seq]` is added to the scores, 0 or the lowest number."""
        embedded = self.dropout(self.embed_tokens(ids) * self.scale + self.embed_positions(positions))
        return super().forward(embedded, src_key_padding_mask=hidden)


def build(config: pb.ModelConfig, weights: Mapping[str, Array]) -> Embedded:
    """torch's network with the weights of a checkpoint, in evaluation mode."""
    state: dict[str, torch.Tensor] = {}
    for full, values in weights.items():
        name = full.partition(".")[2]
        for ours, theirs in _NAMES.items():
            name = name.replace(ours, theirs)
        state[name] = torch.from_numpy(np.array(values))
    model = Embedded(config)
    model.load_state_dict(state)
    return model.train(mode=False)


def run_torch(
    config: pb.ModelConfig, weights: Mapping[str, Array], inputs: Mapping[str, Array]
) -> dict[str, torch.Tensor]:
    """Every tap of a case with embeddings, by name. Raises `ParityError` when torch's attention is not as it was."""
    network, model = classic_network(config), build(config, weights)
    tensors = {name.removeprefix("input.encoder_"): torch.from_numpy(np.array(value)) for name, value in inputs.items()}
    taps: dict[str, torch.Tensor] = {}
    attentions = (module for module in model.modules() if isinstance(module, nn.MultiheadAttention))
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), _kernels_taken(attentions), attach(model, network, taps.__setitem__, modules=_MODULES):
            # Numbers, not bools: of those torch makes -inf, and a row of padding alone would be NaN.
            model(tensors["input_ids"], tensors["position_ids"], additive(tensors["attention_mask"], torch.float32))
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)
    return taps
