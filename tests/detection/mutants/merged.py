"""Seeded bugs: the decoder's queries over the encoder's keys. The mask of that half."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.memory import MEMORY
from detection.mutants.mutant import Mutant, Seed
from qwen3_encdec import modeling_qwen3_decoder

_MASK = ("merged_attn.mask",)
_CASES = ("encdec/ragged", "encdec/window", "encdec/unrotated")


def _padding_of(stack: str) -> Seed:
    """The encoder's half hides the decoder's padding ("decoder"), or the decoder's own half the encoder's."""

    def fitted(mask: torch.Tensor, length: int) -> torch.Tensor:
        return torch.nn.functional.pad(mask, (0, max(length - mask.shape[1], 0)), value=1)[:, :length]

    def merged(plain: Any, padding: torch.Tensor, theirs: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        if stack == "decoder":
            return plain(padding, fitted(padding, theirs.shape[1]), **kwargs)  # type: ignore[no-any-return]
        return plain(fitted(theirs, padding.shape[1]), theirs, **kwargs)  # type: ignore[no-any-return]

    return lambda patch: patch.wrap(modeling_qwen3_decoder, "merged_mask", merged)


def _memory_mask(name: str, says: str, rule: Callable[[Cells], torch.Tensor], named: str, *cases: str) -> Mutant:
    return entry(name, says, decoder_mask(memory=rule), _MASK, named, cases or _CASES)


_MASKS = (
    _memory_mask("own/memory-hidden", "the encoder is hidden in decoding", lambda c: c.real & (c.past == 0),
                 "mask.memory_hidden"),
    _memory_mask("own/memory-padding-late", "the encoder's padding is seen from the third call on",
                 lambda c: c.real | (c.past > 4), "mask.memory_padding_ignored", "encdec/ragged"),
    entry("own/memory-padding-of-decoder", "the encoder's half hides the decoder's padding", _padding_of("decoder"),
          _MASK, "mask.padding_exchanged mask.bands", _CASES),
    entry("own/mask-padding-of-encoder", "the decoder's half hides the encoder's padding", _padding_of("encoder"),
          _MASK, "mask.padding_exchanged mask.bands", _CASES[::2]),
)  # fmt: skip


MUTANTS = (*_MASKS, *MEMORY)
