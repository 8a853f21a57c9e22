"""Seeded bugs: masks whose cells are right and which are added to the scores in a wrong way."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import constants
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import attention, modeling_qwen3_decoder, modeling_qwen3_encoder

_MASK, _PROBS = ("merged_attn.mask", "self_attn.mask"), ("merged_attn.probs", "self_attn.probs")
_ENCDEC = ("encdec/ragged", "encdec/window")


def _hidden_as(value: float) -> Seed:
    return constants(lambda visible, dtype: torch.where(visible, 0.0, value).to(dtype))


def _float_padding(patch: Patch) -> None:
    def merged(plain: Any, own: torch.Tensor, theirs: Any, **kwargs: Any) -> torch.Tensor:
        mask: torch.Tensor = plain(None, theirs, **kwargs)
        return mask + torch.nn.functional.pad(own.to(mask.dtype), (0, kwargs["encoder_length"]))[:, None, None]

    patch.wrap(modeling_qwen3_decoder, "merged_mask", merged)


def _doubled(patch: Patch) -> None:
    patch.result(modeling_qwen3_decoder, "merged_mask", lambda mask: mask + mask)
    patch.result(modeling_qwen3_encoder, "encoder_mask", lambda mask: mask + mask)


def _probabilities(mask_of: Any) -> Seed:
    """The softmax gets the mask `mask_of(mask[batch, 1, query, key], heads[heads, 1, 1])`."""

    def probabilities(plain: Any, scores: torch.Tensor, mask: torch.Tensor, dtype: torch.dtype) -> Any:
        return plain(scores, mask_of(mask, torch.arange(scores.shape[1])[:, None, None]), dtype)

    return lambda patch: patch.wrap(attention, "probabilities", probabilities)


def _folded_rows(mask: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(len(mask))[:, None] + heads.flatten() * len(mask)
    return mask[rows // len(heads), 0]


def _group_rows(mask: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
    groups = heads.flatten() * len(mask) // len(heads)  # raises where rows and KV heads differ in number
    return mask[groups, 0][None]


VALUES = (
    entry(
        "MSK-08",
        "a mask of 0 and 1 is added to the scores",
        constants(lambda visible, dtype: visible.to(dtype)),
        (*_MASK, *_PROBS),
        "softmax.boolean_added mask.inverted",
        _ENCDEC,
    ),
    entry(
        "MSK-08/padding",
        "padding of 0 and 1 is added to a causal mask",
        _float_padding,
        (_MASK[0], _PROBS[0]),
        "softmax.boolean_added",
        ("decoder/ragged_decode",),
    ),
    entry("MSK-09", "hidden is -1e-9", _hidden_as(-1e-9), _PROBS, "softmax.no_mask softmax.weak_mask", _ENCDEC),
    entry(
        "MSK-12",
        "two masks of finfo.min are added: -inf, and NaN where nothing is seen",
        _doubled,
        _PROBS[1:],
        "softmax.not_finite",
        ("encoder/ragged",),
    ),
    entry(
        "MSK-12/decoder",
        "two masks of finfo.min are added: -inf, and NaN where nothing is seen",
        _doubled,
        _PROBS[:1],
        "softmax.not_finite",
        ("decoder/ragged_decode",),
    ),
    entry("own/mask-minus-ten", "hidden is -10", _hidden_as(-10.0), _PROBS, "softmax.weak_mask", _ENCDEC),
    entry("own/mask-minus-sixteen", "hidden is -16", _hidden_as(-16.0), _PROBS, "softmax.weak_mask", _ENCDEC),
    entry(
        "own/mask-one-head",
        "the mask reaches the first head alone",
        _probabilities(lambda mask, heads: torch.where(heads == 0, mask, torch.zeros_like(mask))),
        _PROBS,
        "softmax.no_mask fit.concentrated",
        _ENCDEC,
    ),
    entry(
        "own/mask-not-one-head",
        "head 3 has no mask",
        _probabilities(lambda mask, heads: torch.where(heads == 3, torch.zeros_like(mask), mask)),
        _PROBS,
        "softmax.no_mask fit.concentrated",
        _ENCDEC,
    ),
    entry(
        "GQA-08",
        "heads and rows are folded head first, the mask row first",
        _probabilities(_folded_rows),
        _PROBS,
        "softmax.other_row mask.other_row",
        ("encdec/ragged",),
    ),
    entry(
        "GQA-09",
        "the mask's rows meet the KV heads: as many rows as KV heads",
        _probabilities(_group_rows),
        _PROBS,
        "softmax.other_row mask.other_row",
        ("encdec/unrotated", "encdec/window"),
    ),
    entry(
        "own/mask-row-in-softmax",
        "the softmax takes the mask of another row",
        _probabilities(lambda mask, heads: mask.roll(1, dims=0)),
        _PROBS,
        "softmax.other_row mask.other_row",
        ("encdec/ragged",),
    ),
    entry(
        "own/mask-first-query",
        "the softmax takes the first query's mask for all of them",
        _probabilities(lambda mask, heads: mask[:, :, :1].expand_as(mask)),
        _PROBS[:1],
        "softmax.other_mask mask.top_left",
        ("decoder/ragged_decode",),
    ),
)
