"""Seeded bugs: parameters in another order, in another shape or with fewer bits than the checkpoint's."""

from __future__ import annotations

from itertools import accumulate

import torch

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import both
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import (
    LINEAR,
    MLP,
    NORMS,
    decoder_norm,
    embedding,
    everywhere,
    head,
    meta_layout,
    rows,
    taps,
    weights,
)

_MERGED = ("encdec/ragged", "encdec/unrotated", "encdec/window")
_QWEN2 = ("encdec/qwen2",)
_UNTIED = ("decoder/window_chunks", "encdec/window")
_TIED = ("decoder/ragged_decode", "encdec/ragged")


def _byteswapped(weight: torch.Tensor, _layer: int = 0) -> torch.Tensor:
    return torch.from_numpy(weight.numpy().byteswap())


def _as_columns(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """The rows' memory read as `[in, out]`, then transposed to fit."""
    return weight.reshape(weight.shape[1], weight.shape[0]).T


def _memory_of_transpose(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    return weight.T.contiguous().reshape(weight.shape)


def _shifted(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """q_norm takes `hidden` values of the file, so that what stands behind it is read 30 values late."""
    tail = torch.cat([tensors[name].flatten() for name in tensors]).roll(-30)
    ends = accumulate(weight.numel() for weight in tensors.values())
    return {
        name: tail[end - w.numel() : end].reshape(w.shape) for (name, w), end in zip(tensors.items(), ends, strict=True)
    }


def _column_shards(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """[gate ; up] cut into two shards, each halved into gate and up again."""
    gate, up = tensors.values()
    half = len(gate) // 2
    return dict(zip(tensors, (torch.cat((gate[:half], up[:half])), torch.cat((gate[half:], up[half:]))), strict=True))


def _heads_shuffled(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    return weight.roll(weight.shape[1] // 6, 1)


def _one_row_zero(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    weight[7] = 0
    return weight


def _rows_moved(weight: torch.Tensor) -> torch.Tensor:
    """The rows of the last ids stand one further down."""
    return torch.cat((weight[:200], weight[200:].roll(1, 0)))


def _head_dim(patch: Patch) -> int:
    return int(patch.model.config.head_dim)


def _permuted(*names: str, stack: str = "decoder") -> Seed:
    return lambda patch: weights(lambda weight, _: meta_layout(weight, _head_dim(patch)), *names, stack=stack)(patch)


_LAYOUT = (
    entry("WLD-01", "k_proj and v_proj read as [in, out]: a reshape, no transpose",
          weights(_as_columns, "k_proj", "v_proj"), taps("k_proj", "v_proj"), "weight.reshaped", _MERGED),
    entry("WLD-02", "square matrices are transposed", weights(lambda w, _: w.T, "q_proj", "o_proj", *MLP),
          taps("q_proj", "o_proj", *MLP), "weight.transposed", _QWEN2),
    entry("WLD-14", "the memory of a transposed view is written", weights(_memory_of_transpose, "o_proj"),
          taps("o_proj"), "weight.reshaped", _MERGED),
    entry("WLD-09", "the final norm's bytes are swapped",
          decoder_norm(lambda patch: _byteswapped(patch.model.decoder.norm.weight.detach())), ("decoder.norm",),
          "weight.unknown", _TIED),
    entry("WLD-17", "[gate ; up] is cut into plain shards", rows(_column_shards, *MLP[:2]), MLP[:2],
          "weight.other_rows weight.permuted weight.unknown", _MERGED),
    entry("QKN-12", "q_norm is stored too wide: what follows is read 30 values late",
          rows(_shifted, "k_norm", NORMS[1], *MLP), taps("k_norm", NORMS[1], *MLP), "weight.unknown weight.shifted",
          _MERGED),
    entry("ROP-02", "q_proj and k_proj keep Meta's order of pairs",
          both(*(_permuted("q_proj", "k_proj", stack=stack) for stack in ("encoder", "decoder"))),
          everywhere("q_proj", "k_proj"), "weight.permuted", _MERGED),
    entry("ROP-04", "one loader brings k_proj into HF's order of pairs, the other does not", _permuted("k_proj"),
          taps("k_proj"), "weight.permuted", _MERGED),
    entry("own/weight-heads-turned", "o_proj's heads are late by one", weights(_heads_shuffled, "o_proj"),
          taps("o_proj"), "weight.heads_shuffled weight.permuted", _MERGED),
    entry("own/weight-row-lost", "row 7 of up_proj is 0 in the last layer",
          weights(_one_row_zero, MLP[1], layers=slice(-1, None)), (MLP[1],), "fit.concentrated weight.unknown",
          _MERGED),
    entry("EMB-04", "the last ids read each other's rows", embedding("decoder", _rows_moved), ("decoder.embed_tokens",),
          "embedding.other_row", ("decoder/ragged_decode", "decoder/window_even")),
    entry("own/weight-head-late", "the head's rows are late by one", head(lambda _, w: w.roll(1, 0)), ("logits",),
          "weight.permuted fit.shift", _UNTIED),
)  # fmt: skip


_PRECISION = (
    entry("WLD-18", "weights went through float16", weights(lambda w, _: w.half().to(w.dtype), *MLP), MLP,
          "weight.rounded", _MERGED),
    entry("WLD-18/bfloat16", "weights went through bfloat16", weights(lambda w, _: w.bfloat16().to(w.dtype), *LINEAR),
          taps(*LINEAR), "weight.rounded", _MERGED),
    entry("own/weight-eight-bits", "weights went through 8 bits",
          weights(lambda w, _: (w / (step := w.abs().amax(1, keepdim=True) / 127)).round() * step, *MLP), MLP,
          "weight.rounded weight.quantised", _MERGED),
    entry("own/weight-scaled", "q_proj is scaled by 1.0005", weights(lambda w, _: w * 1.0005, "q_proj"), taps("q_proj"),
          "fit.factor", _MERGED),
    entry("own/weight-absolute", "negative norm weights lose their sign", weights(lambda w, _: w.abs(), *NORMS), NORMS,
          "fit.channel_factor weight.unknown", (*_TIED, *_UNTIED)),
    entry("own/weight-low-rank", "a low-rank update is merged into v_proj",
          weights(lambda w, _: w + 0.01 * w[:, :1] @ w[:1], "v_proj"), taps("v_proj"),
          "structure.low_rank weight.unknown", _MERGED),
)  # fmt: skip

LAYOUTS = (*_LAYOUT, *_PRECISION)
