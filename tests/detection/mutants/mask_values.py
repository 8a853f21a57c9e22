"""Seeded bugs: masks whose cells are right and which are added to the scores in a wrong way."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import constants
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder

_MASK, _PROBS = ("merged_attn.mask", "self_attn.mask"), ("merged_attn.probs", "self_attn.probs")
_ENCDEC = ("encdec/ragged", "encdec/window")


def _float_padding(patch: Patch) -> None:
    def merged(plain: Any, own: torch.Tensor, theirs: Any, **kwargs: Any) -> torch.Tensor:
        mask: torch.Tensor = plain(None, theirs, **kwargs)
        return mask + torch.nn.functional.pad(own.to(mask.dtype), (0, kwargs["encoder_length"]))[:, None, None]

    patch.wrap(modeling_qwen3_decoder, "merged_mask", merged)


VALUES = (
    entry("MSK-08", "a mask of 0 and 1 is added to the scores", constants(lambda visible, dtype: visible.to(dtype)),
          (*_MASK, *_PROBS), "softmax.boolean_added mask.inverted", _ENCDEC),
    entry("MSK-08/padding", "padding of 0 and 1 is added to a causal mask", _float_padding, (_MASK[0], _PROBS[0]),
          "softmax.boolean_added", ("decoder/ragged_decode",)),
)  # fmt: skip
