"""Seeded bugs: which keys a sliding window leaves, and on which layers."""

from __future__ import annotations

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import config_field, decoder_mask, encoder_mask
from detection.mutants.mutant import Mutant, Seed

_OWN, _ENCODER = "merged_attn.mask", "self_attn.mask"
_WINDOW = ("decoder/window_chunks", "decoder/window_even", "encdec/window")
_ENCODER_WINDOW = ("encoder/window_odd", "encoder/window_even")


def _exchanged(types: list[str]) -> list[str]:
    other = {"full_attention": "sliding_attention", "sliding_attention": "full_attention"}
    return [other[name] for name in types]


def _own(name: str, says: str, seed: Seed, named: str, cases: tuple[str, ...], wrong: str = _OWN) -> Mutant:
    return entry(name, says, seed, (wrong,), named, cases)


WINDOWS = (
    _own(
        "MSK-20",
        "one key more than the window",
        decoder_mask(lambda c: c.causal & c.near(1) & c.real),
        "mask.window_off_by_one",
        _WINDOW,
    ),
    _own(
        "MSK-20/less",
        "one key less than the window",
        decoder_mask(lambda c: c.causal & c.near(-1) & c.real),
        "mask.window_off_by_one",
        _WINDOW,
    ),
    _own("MSK-21", "no window", decoder_mask(lambda c: c.causal & c.real), "mask.window_missing", _WINDOW),
    _own(
        "MSK-21/encoder", "no window", encoder_mask(lambda c: c.real), "mask.window_missing", _ENCODER_WINDOW, _ENCODER
    ),
    _own(
        "MSK-22",
        "the window is on the other layers",
        config_field("layer_types", _exchanged),
        "mask.window_wrong_layers",
        _WINDOW[:2],
    ),
    _own(
        "MSK-22/all",
        "the window is on every layer",
        config_field("layer_types", lambda types: ["sliding_attention"] * len(types)),
        "mask.window_everywhere",
        _WINDOW[:2],
    ),
    _own(
        "MSK-24",
        "no window for one query",
        decoder_mask(lambda c: c.causal & c.real & (c.near() | (len(c.query) == 1))),
        "mask.window_missing",
        _WINDOW,
    ),
    _own(
        "MSK-25",
        "the window counts queries inside the chunk",
        decoder_mask(lambda c: c.own | (c.causal & c.real & c.near(c.past))),
        "mask.window_relative",
        _WINDOW,
    ),
    _own(
        "MSK-26",
        "the encoder's window goes to the left alone",
        encoder_mask(lambda c: c.both_sides() & c.real & (c.causal if c.window else c.causal | True)),
        "mask.causal",
        _ENCODER_WINDOW,
        _ENCODER,
    ),
    _own(
        "MSK-26/split",
        "(W + 1) // 2 keys to the left, W // 2 to the right",
        encoder_mask(lambda c: c.real & c.split()),
        "mask.bands mask.window_split",
        _ENCODER_WINDOW,
        _ENCODER,
    ),
    _own(
        "MSK-26/less",
        "the encoder's window is exclusive",
        encoder_mask(lambda c: c.real & c.both_sides(-1)),
        "mask.window_off_by_one",
        _ENCODER_WINDOW,
        _ENCODER,
    ),
    _own(
        "MSK-26/more",
        "one key too far on both sides",
        encoder_mask(lambda c: c.real & c.both_sides(1)),
        "mask.window_off_by_one",
        _ENCODER_WINDOW,
        _ENCODER,
    ),
    _own(
        "KVC-09",
        "W + 1 keys in the prompt, W in decoding",
        decoder_mask(lambda c: c.causal & c.real & c.near(int(c.past == 0))),
        "mask.window_off_by_one",
        ("encdec/window",),
    ),
    _own(
        "own/mask-half-window",
        "half the window",
        decoder_mask(lambda c: c.own & c.near(-2)),
        "mask.window_off_by_one mask.bands",
        _WINDOW,
    ),
    _own(
        "own/mask-window-first-layer",
        "later layers lose the window",
        config_field("layer_types", lambda types: [types[0], *["full_attention"] * (len(types) - 1)]),
        "mask.window_wrong_layers mask.window_missing",
        ("decoder/window_chunks",),
    ),
)
