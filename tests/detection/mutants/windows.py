"""Seeded bugs: which keys a sliding window leaves, and on which layers."""

from __future__ import annotations

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import config_field, decoder_mask
from detection.mutants.mutant import Mutant, Seed

_OWN, _ENCODER = "merged_attn.mask", "self_attn.mask"
_WINDOW = ("decoder/window_chunks", "decoder/window_even", "encdec/window")


def _exchanged(types: list[str]) -> list[str]:
    other = {"full_attention": "sliding_attention", "sliding_attention": "full_attention"}
    return [other[name] for name in types]


def _own(name: str, says: str, seed: Seed, named: str, cases: tuple[str, ...], wrong: str = _OWN) -> Mutant:
    return entry(name, says, seed, (wrong,), named, cases)


WINDOWS = (
    _own("MSK-22", "the window is on the other layers", config_field("layer_types", _exchanged),
         "mask.window_wrong_layers", _WINDOW[:2]),
    _own("MSK-22/all", "the window is on every layer",
         config_field("layer_types", lambda types: ["sliding_attention"] * len(types)), "mask.window_everywhere",
         _WINDOW[:2]),
    _own("MSK-24", "no window for one query",
         decoder_mask(lambda c: c.causal & c.real & (c.near() | (len(c.query) == 1))), "mask.window_missing", _WINDOW),
    _own("MSK-25", "the window counts queries inside the chunk",
         decoder_mask(lambda c: c.own | (c.causal & c.real & c.near(c.past))), "mask.window_relative", _WINDOW),
    _own("KVC-09", "W + 1 keys in the prompt, W in decoding",
         decoder_mask(lambda c: c.causal & c.real & c.near(int(c.past == 0))), "mask.window_off_by_one",
         ("encdec/window",)),
    _own("own/mask-window-first-layer", "later layers lose the window",
         config_field("layer_types", lambda types: [types[0], *["full_attention"] * (len(types) - 1)]),
         "mask.window_wrong_layers mask.window_missing", ("decoder/window_chunks",)),
)  # fmt: skip
