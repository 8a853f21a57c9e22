"""Seeded bugs: who sees whom. Causality and padding; windows and how masks are added stand in files of their own."""

from __future__ import annotations

import torch

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import decoder_mask
from detection.mutants.mask_sources import pad_id, previous_step, stale_padding
from detection.mutants.mask_values import VALUES
from detection.mutants.mutant import Mutant, Seed
from detection.mutants.windows import WINDOWS

_OWN, _ENCODER = "merged_attn.mask", "self_attn.mask"
_RAGGED = ("decoder/ragged_decode", "encdec/ragged")
_CHUNKS = ("decoder/window_even", "decoder/window_chunks", "encdec/unrotated")


def _own(name: str, says: str, seed: Seed, named: str, cases: tuple[str, ...], wrong: str = _OWN) -> Mutant:
    return entry(name, says, seed, (wrong,), named, cases)


_CAUSALITY = (
    _own("MSK-04", "causal in the first call alone: a chunk sees its own future",
         decoder_mask(lambda c: (c.causal | (c.past > 0)) & c.near() & c.real), "mask.bidirectional", _CHUNKS),
    _own("own/mask-top-left", "a chunk's triangle starts at slot 0",
         decoder_mask(lambda c: (c.distance >= c.past) & c.near() & c.real), "mask.top_left", _CHUNKS),
    _own("own/mask-newest-hidden", "a decode step does not see its own token",
         decoder_mask(lambda c: c.own & ((c.distance > 0) | (c.past == 0))), "mask.off_by_one", _RAGGED),
    _own("own/mask-step-before", "a decode step uses the mask of the step before, one slot wider", previous_step,
         "wiring.previous_step", ("encdec/window", "decoder/window_chunks")),
)  # fmt: skip


_PADDING = (
    _own("MSK-16", "padding is not extended in decoding: it slides along the keys", decoder_mask(stale_padding),
         "mask.bands", _RAGGED),
    _own("MSK-17", "no mask at all for one query",
         decoder_mask(lambda c: c.own if len(c.query) > 1 else torch.ones_like(c.causal)), "mask.padding_ignored",
         _RAGGED),
    _own("MSK-18", "padding behind the prompt is seen once it is in the cache",
         decoder_mask(lambda c: c.causal & c.near() & (c.real | ((c.key < c.past) & (c.real.long().cumsum(-1) > 0)))),
         "mask.padding_ignored mask.bands", _RAGGED),
    entry("MSK-30", "the mask comes from the padding id, which the text holds too", pad_id,
          (_ENCODER, "encoder.position_ids"), "mask.bands mask.pad_id", ("encoder/ragged",)),
)  # fmt: skip

MUTANTS = (*_CAUSALITY, *_PADDING, *WINDOWS, *VALUES)
