"""Seeded bugs: who sees whom. Causality and padding; windows and how masks are added stand in files of their own."""

from __future__ import annotations

import torch

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import decoder_mask, encoder_mask, never_ahead
from detection.mutants.mask_sources import last_pad_seen, pad_id, previous_step, stale_padding
from detection.mutants.mask_values import VALUES
from detection.mutants.mutant import Mutant, Seed
from detection.mutants.windows import WINDOWS

_OWN, _ENCODER = "merged_attn.mask", "self_attn.mask"
_RAGGED = ("decoder/ragged_decode", "encdec/ragged")
_WINDOW = ("decoder/window_chunks", "decoder/window_even", "encdec/window")
_CHUNKS = ("decoder/window_even", "decoder/window_chunks", "encdec/unrotated")


def _own(name: str, says: str, seed: Seed, named: str, cases: tuple[str, ...], wrong: str = _OWN) -> Mutant:
    return entry(name, says, seed, (wrong,), named, cases)


_CAUSALITY = (
    _own(
        "MSK-01",
        "triu(0): a token does not see itself",
        decoder_mask(lambda c: c.own & (c.distance > 0)),
        "mask.off_by_one",
        _RAGGED,
    ),
    _own(
        "MSK-01/future",
        "triu(2): one future token is seen",
        decoder_mask(lambda c: (c.distance >= -1) & c.near() & c.real),
        "mask.off_by_one",
        _RAGGED,
    ),
    _own(
        "MSK-02",
        "only the future is seen",
        decoder_mask(lambda c: (c.distance <= 0) & c.near() & c.real),
        "mask.anti_causal",
        _RAGGED,
    ),
    _own(
        "MSK-29",
        "the 4-D mask that is given is ignored, and a causal one made",
        decoder_mask(),
        "mask.given_ignored",
        ("decoder/mask_4d",),
    ),
    _own(
        "MSK-29/ahead",
        "the 4-D mask that is given hides every later key",
        never_ahead,
        "mask.given_causal",
        ("decoder/mask_4d",),
    ),
    _own(
        "MSK-04",
        "causal in the first call alone: a chunk sees its own future",
        decoder_mask(lambda c: (c.causal | (c.past > 0)) & c.near() & c.real),
        "mask.bidirectional",
        _CHUNKS,
    ),
    _own(
        "MSK-06",
        "the encoder is causal",
        encoder_mask(lambda c: c.causal & c.both_sides() & c.real),
        "mask.causal",
        ("encoder/ragged", "encdec/ragged"),
        _ENCODER,
    ),
    _own(
        "MSK-06/unpadded",
        "the encoder is causal when its mask is all ones",
        encoder_mask(lambda c: (c.causal | ~c.real.all()) & c.both_sides() & c.real),
        "mask.causal",
        ("encoder/window_even",),
        _ENCODER,
    ),
    _own(
        "own/mask-bidirectional",
        "the decoder sees its whole prompt",
        decoder_mask(lambda c: c.near() & c.real),
        "mask.bidirectional",
        _RAGGED,
    ),
    _own(
        "own/mask-top-left",
        "a chunk's triangle starts at slot 0",
        decoder_mask(lambda c: (c.distance >= c.past) & c.near() & c.real),
        "mask.top_left",
        _CHUNKS,
    ),
    _own(
        "own/mask-newest-hidden",
        "a decode step does not see its own token",
        decoder_mask(lambda c: c.own & ((c.distance > 0) | (c.past == 0))),
        "mask.off_by_one",
        _RAGGED,
    ),
    _own(
        "own/mask-first-hidden", "slot 0 is hidden", decoder_mask(lambda c: c.own & (c.key > 0)), "mask.bands", _RAGGED
    ),
    _own(
        "own/mask-step-before",
        "a decode step uses the mask of the step before, one slot wider",
        previous_step,
        "wiring.previous_step",
        ("encdec/window", "decoder/window_chunks"),
    ),
)


_PADDING = (
    _own(
        "MSK-14",
        "padding hides queries, not keys",
        decoder_mask(lambda c: c.causal & c.near() & c.query_real),
        "mask.padding_on_queries",
        _RAGGED,
    ),
    _own(
        "MSK-14/encoder",
        "padding hides queries, not keys",
        encoder_mask(lambda c: c.both_sides() & c.query_real),
        "mask.padding_on_queries",
        ("encoder/ragged", "encdec/ragged"),
        _ENCODER,
    ),
    _own(
        "MSK-16",
        "padding is not extended in decoding: it slides along the keys",
        decoder_mask(stale_padding),
        "mask.bands",
        _RAGGED,
    ),
    _own(
        "MSK-17",
        "no mask at all for one query",
        decoder_mask(lambda c: c.own if len(c.query) > 1 else torch.ones_like(c.causal)),
        "mask.padding_ignored",
        _RAGGED,
    ),
    _own(
        "MSK-18",
        "padding behind the prompt is seen once it is in the cache",
        decoder_mask(lambda c: c.causal & c.near() & (c.real | ((c.key < c.past) & (c.real.long().cumsum(-1) > 0)))),
        "mask.padding_ignored mask.bands",
        _RAGGED,
    ),
    _own(
        "MSK-28",
        "layers with a window lose the padding",
        decoder_mask(lambda c: c.own if c.window is None else c.causal & c.near()),
        "mask.padding_ignored",
        _WINDOW,
    ),
    entry(
        "MSK-30",
        "the mask comes from the padding id, which the text holds too",
        pad_id,
        (_ENCODER, "encoder.position_ids"),
        "mask.bands mask.pad_id",
        ("encoder/ragged",),
    ),
    _own(
        "own/mask-padding-ignored",
        "padding is seen",
        decoder_mask(lambda c: c.causal & c.near()),
        "mask.padding_ignored",
        _RAGGED,
    ),
    _own(
        "own/mask-padding-ignored-encoder",
        "padding is seen",
        encoder_mask(lambda c: c.both_sides()),
        "mask.padding_ignored",
        ("encoder/ragged", "encoder/window_odd"),
        _ENCODER,
    ),
    _own(
        "own/mask-inverted",
        "1 means padding",
        decoder_mask(lambda c: c.causal & c.near() & ~c.real),
        "mask.inverted",
        _RAGGED,
    ),
    _own(
        "own/mask-hole-ignored",
        "padding inside the text is seen",
        decoder_mask(lambda c: c.causal & c.near() & (c.real.long().cumsum(-1) > 0)),
        "mask.padding_ignored mask.bands",
        ("encdec/ragged", "decoder/ragged_decode"),
    ),
    _own(
        "own/mask-last-pad-seen",
        "the last padding slot of a row is seen",
        decoder_mask(last_pad_seen),
        "mask.padding_ignored mask.bands mask.off_by_one",
        _RAGGED,
    ),
    _own(
        "own/mask-row",
        "rows have each other's padding",
        decoder_mask(lambda c: c.causal & c.near() & c.real.roll(1, 0)),
        "mask.other_row",
        _RAGGED,
    ),
    _own(
        "own/mask-first-row",
        "every row has the first one's padding",
        encoder_mask(lambda c: c.both_sides() & c.real[:1]),
        "mask.other_row mask.padding_ignored",
        ("encoder/ragged", "encdec/ragged"),
        _ENCODER,
    ),
)

MUTANTS = (*_CAUSALITY, *_PADDING, *WINDOWS, *VALUES)
