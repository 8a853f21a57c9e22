"""Wrong masks, built cell by cell, get the names of their mistakes.

It runs `mistakes.mask_parts`, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from wrong_numbers import evidence, explanations, named

from qwen3_golden import Array
from qwen3_spec.site import Site

Cell = Callable[[int, int, Array], bool]
"""Whether query slot i sees key slot j; `real[slot]` of the batch row."""

RAGGED, WINDOW, ENCODER = "encdec/ragged", "decoder/window_chunks", "encoder/window_odd"


def decoder_mask(cell: Cell, memory: Callable[[int, int, Array], bool] = lambda i, k, real: bool(real[k])) -> object:
    def mask(site: Site) -> Array:
        real = site.inputs[0].astype(bool)[:, : site.stop]
        theirs = site.inputs[1].astype(bool) if len(site.inputs) > 1 else real[:, :0]
        past = site.stop - site.length
        decoder = [[[cell(past + i, j, row) for j in range(site.stop)] for i in range(site.length)] for row in real]
        encoder = [[[memory(past + i, k, row) for k in range(theirs.shape[1])] for i in range(site.length)]
                for row in theirs]  # fmt: skip
        wide = np.array(encoder, bool).reshape(len(real), site.length, theirs.shape[1])
        return np.concatenate([np.array(decoder, bool), wide], axis=-1)

    return mask


def encoder_mask(cell: Cell) -> object:
    def mask(site: Site) -> Array:
        real = site.inputs[0].astype(bool)
        span = range(real.shape[1])
        return np.array([[[cell(i, j, row) for j in span] for i in span] for row in real], bool)

    return mask


OWN: dict[str, tuple[str, str, int, object]] = {
    "bidirectional": ("mask.bidirectional", RAGGED, 0, decoder_mask(lambda i, j, real: bool(real[j]))),
    "future": ("mask.off_by_one", RAGGED, 0, decoder_mask(lambda i, j, real: j <= i + 1 and bool(real[j]))),
    "itself hidden": ("mask.off_by_one", RAGGED, 0, decoder_mask(lambda i, j, real: j < i and bool(real[j]))),
    "future alone": ("mask.anti_causal", RAGGED, 0, decoder_mask(lambda i, j, real: j >= i and bool(real[j]))),
    "past hidden": ("mask.past_hidden", RAGGED, 2, decoder_mask(lambda i, j, real: j == i)),
    "all padding seen": ("mask.padding_ignored", RAGGED, 2,
                         decoder_mask(lambda i, j, real: True, lambda i, k, real: True)),
    "padding seen": ("mask.padding_ignored", RAGGED, 0, decoder_mask(lambda i, j, real: j <= i)),
    "padding alone": ("mask.inverted", RAGGED, 0, decoder_mask(lambda i, j, real: j <= i and not real[j])),
    "chunk without past": ("mask.top_left", "encdec/unrotated", 1,
                           decoder_mask(lambda i, j, real: j <= i - 3 and bool(real[j]))),
    "no window": ("mask.window_missing", WINDOW, 3, decoder_mask(lambda i, j, real: j <= i and bool(real[j]))),
    "window of one more": ("mask.window_off_by_one", WINDOW, 3,
                           decoder_mask(lambda i, j, real: 0 <= i - j < 6 and bool(real[j]))),
    "window of one less": ("mask.window_off_by_one", WINDOW, 3,
                           decoder_mask(lambda i, j, real: 0 <= i - j < 4 and bool(real[j]))),
    "window of seven, padding seen": ("mask.window_off_by_one", WINDOW, 5,
                                      decoder_mask(lambda i, j, real: 0 <= i - j < 7)),
    "causal memory": ("mask.memory_causal", RAGGED, 0,
                      decoder_mask(lambda i, j, real: j <= i and bool(real[j]),
                                   lambda i, k, real: k <= i and bool(real[k]))),
    "memory's padding seen": ("mask.memory_padding_ignored", RAGGED, 0,
                              decoder_mask(lambda i, j, real: j <= i and bool(real[j]), lambda i, k, real: True)),
    "memory hidden": ("mask.memory_hidden", RAGGED, 0,
                      decoder_mask(lambda i, j, real: j <= i and bool(real[j]), lambda i, k, real: False)),
    "windowed memory": ("mask.memory_windowed", "encdec/window", 0,
                        decoder_mask(lambda i, j, real: 0 <= i - j < 5 and bool(real[j]),
                                     lambda i, k, real: i - k < 5 and bool(real[k]))),
    "causal encoder": ("mask.causal", ENCODER, 0, encoder_mask(lambda i, j, real: 0 <= i - j <= 5 and bool(real[j]))),
    "encoder without window": ("mask.window_missing", ENCODER, 0, encoder_mask(lambda i, j, real: bool(real[j]))),
    "encoder's exclusive window": ("mask.window_off_by_one", ENCODER, 0,
                                   encoder_mask(lambda i, j, real: abs(i - j) < 5 and bool(real[j]))),
    "encoder's window one short on the right": ("mask.window_off_by_one", ENCODER, 0,
                                                encoder_mask(lambda i, j, real: -5 < i - j <= 5 and bool(real[j]))),
    "encoder's split window": ("mask.window_split", ENCODER, 0,
                               encoder_mask(lambda i, j, real: -2 <= i - j < 3 and bool(real[j]))),
    "as it is": ("right", RAGGED, 0, decoder_mask(lambda i, j, real: j <= i and bool(real[j]))),
}  # fmt: skip


def tap(case: str) -> str:
    """The mask of a layer with a window, where the case has one."""
    return "encoder.layers.0.self_attn.mask" if case.startswith("encoder") else "decoder.layers.0.merged_attn.mask"


test_a_wrong_mask_is_named = named(
    {key: (name, case, tap(case), wrong, step) for key, (name, case, step, wrong) in OWN.items()}
)


ROWS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "the row before": ("mask.other_row", lambda m: np.roll(m, 1, 0)),
    "encoder first": ("mask.halves_exchanged", lambda m: np.concatenate([m[..., 4:], m[..., :4]], -1)),
    "not": ("mask.inverted", lambda m: ~m),
    "everything": ("mask.none", lambda m: np.ones_like(m)),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_mask_that_is_wrong_as_a_whole_is_named(kind: str) -> None:
    name, change = ROWS[kind]
    unchanged = decoder_mask(lambda i, j, real: j <= i and bool(real[j]))
    tap_evidence = evidence(RAGGED, tap(RAGGED), lambda site: change(unchanged(site)))
    assert name in [explanation.name for explanation in explanations(tap_evidence)]


def test_two_mistakes_in_one_mask_are_both_told() -> None:
    wrong = decoder_mask(lambda i, j, real: j < i and bool(real[j]), lambda i, k, real: True)
    best = explanations(evidence(RAGGED, tap(RAGGED), wrong))[0]
    assert "hides every query's own key" in best.says and "among the encoder's keys" in best.says
