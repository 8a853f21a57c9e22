"""Backward passes: what is overwritten, cut, smoothed, or read from the wrong place."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from detection.mutants.patch import Patch
from detection.unseen.row import row
from qwen3_encdec.merged_attention import Qwen3MergedAttention
from qwen3_encdec.norm import Qwen3RMSNorm

_CAUSAL = "training/causal"


class _Overwriting(torch.autograd.Function):
    """A look-up whose backward keeps of each id the last gradient alone."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, ids: torch.Tensor, padding: int) -> torch.Tensor:
        ctx.shape, ctx.ids, ctx.padding = weight.shape, ids, padding
        return nn.functional.embedding(ids, weight)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        weight = grads[0].new_zeros(ctx.shape)
        for index, grad in zip(ctx.ids.flatten().tolist(), grads[0].flatten(0, 1), strict=True):
            weight[index] = grad
        weight[ctx.padding] = 0
        return weight, None, None


class _WeightFromInput(torch.autograd.Function):
    """A norm's product whose weight gets its gradient from the input that was never normed."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, normed: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(weight, x)
        return weight * normed

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        weight, x = ctx.saved_tensors
        return (grads[0] * x).flatten(0, -2).sum(0), grads[0] * weight, None


def _overwritten(patch: Patch) -> None:
    table = patch.model.decoder.embed_tokens
    patch.wrap(table, "forward", lambda _plain, ids: _Overwriting.apply(table.weight, ids, table.padding_idx))  # type: ignore[no-untyped-call]


def _from_input(patch: Patch) -> None:
    def forward(norm: Any, x: torch.Tensor) -> Any:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
        return _WeightFromInput.apply(norm.weight, normed, x.detach())  # type: ignore[no-untyped-call]

    patch.setattr(Qwen3RMSNorm, "forward", forward)


def _first_layer_alone(patch: Patch) -> None:
    def project(plain: Any, module: Any, states: torch.Tensor, tables: Any) -> Any:
        return plain(module, states.detach() if module.layer_idx else states, tables)

    patch.wrap(Qwen3MergedAttention, "encoder_keys_values", project)


def _smoothed(patch: Patch) -> None:
    def loss(plain: Any, *args: Any, **rest: Any) -> Any:
        return plain(*args, **rest, label_smoothing=0.1)

    patch.wrap(nn.functional, "cross_entropy", loss)


ROWS = (
    row("X42", "only the first decoder layer passes gradients back to the encoder", _first_layer_alone,
        "gradient.encoder.norm", ["gradient.part_missing", "*gradient*: first layer|layer 1|(one|some) layers?"],
        "training/tied", "logits"),
    row("G3", "RMSNorm backward: the weight's gradient from x, not from x / rms", _from_input,
        "gradient.input_layernorm.weight gradient.post_attention_layernorm.weight gradient.decoder.norm.weight"
        " gradient.merged_attn.q_norm.weight gradient.merged_attn.k_norm.weight",
        ["*: x / rms|unnormed|(not|never) normed|before the norm|times (its|the) rms|root mean square"], _CAUSAL,
        "layer"),
    row("G6", "embedding backward: repeated ids overwrite, they do not add up", _overwritten, "gradient.shared.weight",
        ["*: repeat|occurs? (twice|more)|overwr|last (time|token|occurrence)"], _CAUSAL, "modules"),
    row("G8", "label smoothing of 0.1 is left on", _smoothed, "loss gradient.logits", ["*: smooth"], _CAUSAL, "layer"),
)  # fmt: skip
