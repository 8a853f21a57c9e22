"""Norms that divide by something else than their own root mean square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.mutant import Seed, attention, words
from detection.mutants.patch import Patch
from detection.unseen.row import row
from qwen3_encdec.norm import Qwen3RMSNorm

_HIDDEN = words("input_layernorm post_attention_layernorm encoder.norm decoder.norm")
_EVERY = _HIDDEN | attention("q_norm k_norm encoder_k_norm")


def _mean_square(rule: Callable[[Any, torch.Tensor], torch.Tensor]) -> Seed:
    """Norms divide by the root of `rule(norm, x)`, which broadcasts to `x`."""

    def forward(norm: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = norm.weight * (x * torch.rsqrt(rule(norm, x) + norm.variance_epsilon))
        return result

    return lambda patch: patch.setattr(Qwen3RMSNorm, "forward", forward)


def _plain(x: torch.Tensor) -> torch.Tensor:
    return x.pow(2).mean(-1, keepdim=True)


def _of_shard(_: Any, x: torch.Tensor) -> torch.Tensor:
    if x.ndim == 4:  # heads are not cut
        return _plain(x)
    halves = _plain(x.reshape(*x.shape[:-1], 2, -1))
    return halves.expand(*halves.shape[:-1], x.shape[-1] // 2).flatten(-2)


def _with_lanes(_: Any, x: torch.Tensor) -> torch.Tensor:
    width = x.shape[-1]
    return (x.pow(2).sum(-1, keepdim=True) + (1 << (width - 1).bit_length()) - width) / width


def _row_0_for_all(patch: Patch) -> None:
    """Not in front of a block, where the stream would grow beyond float32."""
    last = patch.model.encoder.norm, patch.model.decoder.norm

    def rule(norm: Any, x: torch.Tensor) -> torch.Tensor:
        return _plain(x)[:1] if x.ndim == 4 or any(norm is final for final in last) else _plain(x)

    _mean_square(rule)(patch)


def _step_before(patch: Patch) -> None:
    left: dict[int, torch.Tensor] = {}

    def rule(norm: Any, x: torch.Tensor) -> torch.Tensor:
        if x.ndim == 4:
            return _plain(x)
        mine = _plain(x)
        square = left.get(id(norm), mine) if x.shape[1] == 1 else mine
        left[id(norm)] = mine[:, -1:]
        return square

    _mean_square(rule)(patch)


def _unnormed_in_steps(patch: Patch) -> None:
    def forward(plain: Any, norm: Any, x: torch.Tensor) -> Any:
        return x if x.ndim == 4 and x.shape[1] == 1 else plain(norm, x)

    patch.wrap(Qwen3RMSNorm, "forward", forward)


def _head_normed(patch: Patch) -> None:
    norm = patch.model.decoder.norm
    patch.wrap(patch.model.lm_head, "forward", lambda plain, x: plain(Qwen3RMSNorm.forward(norm, x)))


ROWS = (
    row("A1", "tensor-parallel RMSNorm: each half of the hidden width has its own mean square", _mean_square(_of_shard),
        _HIDDEN, ["*: shard|halves|each half|two statistics|0 to 19.*20 to 39|blocks? of 20|each 20 .*own root"],
        "encdec/ragged", "layer"),
    row("A3", "the norm's kernel loads masked lanes as 1.0, not 0", _mean_square(_with_lanes), _EVERY,
        ["norm.padded_lanes", "*: lane|power of (two|2)"], "encdec/ragged", "modules layer"),
    row("S1", "the norm's kernel indexes rstd without the batch: row 0 serves all rows", _row_0_for_all,
        attention("q_norm k_norm encoder_k_norm") | words("encoder.norm decoder.norm"),
        ["from.*: row 0|first row", "norm.other_statistic: (batch )?row 0|first (batch )?row"], "encdec/ragged",
        "layer"),
    row("X31", "decode: the norm uses the sum of squares that the step before left", _step_before,
        "input_layernorm post_attention_layernorm decoder.norm",
        ["*: (step before|previous step|last step|other step)", "from.other_step: root mean square"],
        "decoder/plain", "modules"),
    row("A8", "the decode kernel has no QK-norm", _unnormed_in_steps, "merged_attn.q_norm merged_attn.k_norm",
        ["norm.no_norm", "rope.before_norm: left out"], "decoder/ragged_decode", "modules layer"),
    row("A5", "the final norm is applied a second time before the head", _head_normed, "logits",
        ["wiring.extra_norm", "norm.twice"], "decoder/ragged_decode", "layer logits"),
)  # fmt: skip
