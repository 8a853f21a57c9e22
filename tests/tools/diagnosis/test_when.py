"""When a place is wrong is told as a rule over recorded facts, and only where that is hardly chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from seeded import changed, fault
from wrong_numbers import golden

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, tensor
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose, facts
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.positions import Cells, of_positions
from qwen3_parity.diagnosis.when import When, when
from qwen3_parity.diagnosis.whereabouts import whereabouts
from qwen3_parity.judge.op_verdict import OpVerdict

PLACE = "decoder.layers.{layer}.mlp.act"
Of = Callable[[int, int], bool]
"""Whether a tap is wrong, by its layer and step."""


def said(case: str, of: Of = lambda layer, step: True, at: Array | None = None, axis: str = "query") -> str:
    """Where and when [batch, query, channel] is wrong in a case: in some taps, there at some tokens `[batch, slot]`."""
    recording = golden(case)
    steps, real = list(recording.case.steps), ragged(case)
    at = real if at is None else at & real
    taps, wrong, rest = list[Cells](), list[OpVerdict](), list[OpVerdict]()
    for step in range(len(steps)):
        new = slice(0 if axis == "key" else sum(steps[:step]), sum(steps[: step + 1]))
        for layer in range(recording.case.config.num_hidden_layers):
            verdict = OpVerdict(PLACE.format(layer=layer), step, "swiglu", share=2.0)
            if of(layer, step) and at[:, new].any():
                wrong.append(verdict)
                three = np.ones(3, bool)
                taps.append(
                    Cells(
                        verdict.name,
                        step,
                        ("batch", axis, "channel"),
                        at[:, new, None] & three,
                        real[:, new, None] & three,
                    )
                )
            else:
                rest.append(verdict)
    return whereabouts(Fault(PLACE, (), tuple(wrong), tuple(rest)), taps, recording)


def ragged(case: str) -> Array:
    return golden(case)["input.decoder_attention_mask", 0].array.astype(bool)


def slots(case: str) -> Array:
    return np.arange(ragged(case).shape[1])[None] + np.zeros((len(ragged(case)), 1), int)


@pytest.mark.parametrize(
    ("case", "of", "says"),
    [
        ("decoder/plain", lambda _, step: step > 0,
         "in steps with a past (or of one token: here the same) (wrong in 12 of 12, right in 3 of 3)"),
        ("decoder/window_chunks", lambda _, step: 0 < step < 3,
         "in steps with a past, of several tokens (wrong in 6 of 6, right in 15 of 15)"),
        ("generation/small_margins", lambda _, step: step in (0, 4, 8),
         "in steps whose length is a multiple of 4 (wrong in 9 of 9, right in 27 of 27)"),
        ("generation/small_margins", lambda _, step: step not in (0, 4, 8),
         "in steps whose length is no multiple of 4 (wrong in 27 of 27, right in 9 of 9)"),
        ("generation/small_margins", lambda _, step: step in (4, 8),
         "in steps with a past, whose length is a multiple of 4 (wrong in 6 of 6, right in 30 of 30)"),
        ("long/deep", lambda layer, _: layer % 3 == 2,
         "in layers 2, 5, … (every third) (wrong in 12 of 12, right in 24 of 24)"),
        ("decoder/window_chunks", lambda layer, step: layer != 1 and step > 0,
         "layers 0, 2 (of 0–2), those with a window,"
         " in steps with a past (or reaching beyond the window: here the same)"
         " (wrong in 12 of 12, right in 2 of 2)"),
        ("decoder/plain", lambda _, step: step == 3, "step 3 (of 0–4), the only one whose length is a multiple of 4"),
        ("decoder/plain", lambda _, step: step != 3,
         "steps 0–2, 4 (of 0–4), all but the one whose length is a multiple of 4"),
        ("generation/greedy", lambda _, step: step == 3,
         "step 3 (of 0–8), the only one whose length is a multiple of 8"),
        ("encdec/qwen2", lambda _, step: step > 0, "steps 1–2 (of 0–2), those with a past"),
    ],
)  # fmt: skip
def test_steps_and_layers_are_told_by_what_separates_them_with_the_counts(case: str, of: Of, says: str) -> None:
    assert said(case, of) == says


@pytest.mark.parametrize(
    ("case", "of", "says"),
    [
        ("decoder/plain", lambda _, step: step in (1, 4), "steps 1, 4 (of 0–4)"),
        ("decoder/plain", lambda _, step: step == 2, "step 2 (of 0–4)"),
        ("encdec/qwen2", lambda _, step: step == 2, "step 2 (of 0–2)"),
        ("decoder/plain", lambda layer, _: layer == 2, "layer 2 (of 0–2)"),
        ("long/deep", lambda layer, _: layer in (2, 5, 7, 8), "layers 2, 5, 7–8 (of 0–11)"),
        # Neither the layers nor the steps have it to themselves.
        ("decoder/window_chunks", lambda layer, step: layer != 1 or step == 0, ""),
        ("decoder/window_chunks", lambda layer, step: (layer, step) in ((0, 1), (1, 3)),
         "layers 0–1 (of 0–2), steps 1, 3 (of 0–6)"),
    ],
)  # fmt: skip
def test_what_nothing_separates_and_what_too_few_do_is_listed(case: str, of: Of, says: str) -> None:
    assert said(case, of) == says


def earlier(case: str) -> Array:
    ids, real = golden(case)["input.decoder_input_ids", 0].array, ragged(case)
    return np.array(
        [[token in row[:at][mask[:at]] for at, token in enumerate(row)] for row, mask in zip(ids, real, strict=True)]
    )


@pytest.mark.parametrize(
    ("case", "at", "says"),
    [
        ("decoder/ragged_decode", lambda case: slots(case) % 2 == 1,
         "in positions of odd number (wrong in 4 of 4, right in 5 of 5)"),
        ("decoder/ragged_decode", lambda case: slots(case) >= 4,
         "in positions behind the whole blocks of 4 of their step (or ending a step: here the same)"
         " (wrong in 5 of 5, right in 4 of 4)"),
        # Blocks of 4 would separate them as well.
        ("long/last_rows", lambda case: (slots(case) >= 4) & (np.arange(len(ragged(case)))[:, None] == 0),
         "in steps with a past (wrong in 9 of 9, right in 3 of 3), batch 0 (of 0–1)"),
        ("decoder/window_chunks", lambda case: np.isin(slots(case), (2, 5, 8, 9, 10, 11, 12)),
         "in positions ending a step (wrong in 7 of 7, right in 6 of 6)"),
        ("encdec/ragged", earlier,
         "in positions whose id stands earlier in their row (wrong in 3 of 3, right in 18 of 18)"),
        ("decoder/ragged_decode", lambda case: ~ragged(case).all(axis=1, keepdims=True) | (slots(case) < 0),
         "batch 1–2 (of 0–2), those with padding"),
        ("encdec/window", lambda case: np.isin(slots(case), (1, 4)),
         "in steps without a past (or of several tokens: here the same) (wrong in 3 of 3, right in 12 of 12),"
         " query 1, 4 (of 0–6)"),
    ],
)  # fmt: skip
def test_rows_and_positions_are_told_by_what_separates_them(case: str, at: Callable[[str], Array], says: str) -> None:
    assert said(case, at=at(case)) == says


def test_a_config_that_is_somebodys_own_has_no_window_and_no_kinds() -> None:
    for config in ("", "[]", "[" * 100_000, '{"sliding_window": Infinity}', '{"layer_types": 3}', '{"text_config": 1}'):
        case: Any = SimpleNamespace(case=SimpleNamespace(mode=pb.GRAPH), graph=SimpleNamespace(config=config))
        assert facts.numbers_of(case) == (0, ())


@pytest.mark.parametrize(
    ("size", "bad", "says"),
    [
        (5, [0], None),
        (5, [1, 2, 3, 4], None),
        (8, [0, 4], ("whose number is a multiple of 4", True)),
        (9, [4], None),
        (5, [4], ("the only one behind the last whole block of 4", False)),
        (16, [2, 4, 6, 8, 10, 12, 14], ("of even number, whose number is no multiple of 16", True)),
        (16, [0, 4, 8, 12], ("whose number is a multiple of 4", True)),
    ],
)
def test_indices_are_told_by_what_several_of_them_share(size: int, bad: list[int], says: When | None) -> None:
    assert when(np.isin(np.arange(size), bad), facts.of_indices(size)) == says


@pytest.mark.parametrize(
    "axes", ["key", "batch channel", "batch batch key", "key batch", "batch heads key channel", ""]
)
def test_axes_of_somebodys_own_have_no_positions(axes: str) -> None:
    case = "decoder/ragged_decode"
    odd, real = slots(case) % 2 == 1, ragged(case)
    first = Cells("x", 0, ("batch", "key"), odd & real, real)
    assert "key" in of_positions([first], (), golden(case))
    names = axes.split()
    bad = np.zeros((3,) * min(3, len(names)), bool)
    assert of_positions([first, Cells("x", 0, names, bad, bad)], (), golden(case)) == {}


def test_an_axis_whose_name_another_has_is_told_by_its_place() -> None:
    bad = np.zeros((2, 5), bool)
    bad[:, 3:] = True
    verdict = OpVerdict("x", 0, "swiglu", share=2.0)
    cells = Cells("x", 0, ("vector", "vector"), bad, np.ones_like(bad))
    assert "3–4 (of 0–4)" in whereabouts(Fault("x", (), (verdict,), ()), [cells], golden("decoder/plain"))


def test_a_tap_that_no_single_number_makes_wrong_has_no_place_of_its_own() -> None:
    bad, real = np.zeros((2, 5), bool), np.ones((2, 5), bool)
    bad[1, 3] = True
    verdict = OpVerdict("x", 0, "swiglu", share=2.0)
    taps = [Cells("x", 0, ("vector", "vector"), cells, real) for cells in (np.zeros_like(bad), bad)]
    assert whereabouts(Fault("x", (), (verdict,), ()), taps, golden("decoder/plain")) == ""


def bare(steps: Sequence[int], window: int = 0, kinds: Sequence[str] = ()) -> Any:
    """A case with these numbers, and nothing else."""
    config = SimpleNamespace(sliding_window=window, layer_types=kinds)
    return SimpleNamespace(case=SimpleNamespace(mode=pb.CAUSAL, steps=steps, config=config))


def test_one_layer_is_no_series() -> None:
    layers = range(4)
    assert all(when(np.arange(4) == layer, facts.of_layers(layers, bare([1]))) is None for layer in layers)
    kinds = ["sliding_attention", *["full_attention"] * 3]
    assert when(np.arange(4) == 0, facts.of_layers(layers, bare([1], kinds=kinds))) == ("with a window", True)


def test_a_single_step_has_the_words_of_several() -> None:
    known = facts.of_steps(range(5), bare([1, 2, 2, 2, 2], window=7))
    assert when(np.arange(5) == 4, known) == ("reaching beyond the window", True)
    known = facts.of_steps(range(4), bare([1, 2, 2, 2], window=5))
    assert when(np.arange(4) == 3, known) == ("the only one reaching beyond the window", False)


def test_rows_of_a_batch_that_have_padding_are_told_once_there_are_enough_of_them() -> None:
    real = np.array([[1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]], bool)
    bad = np.array([False, True, False, True, True, False])
    assert when(bad, facts.of_rows(real)) == ("with padding", True)
    assert when(bad[:3], facts.of_rows(real[:3])) == ("the one with padding", False)
    assert when(~bad, facts.of_rows(real)) == ("without padding", True)


@pytest.mark.parametrize("steps", [[5, 1, 1, 1, 1], [3, 3, 3, 1, 1, 1, 1], [3, 3, 1, 1, 1, 1, 1, 1, 1]])
def test_few_of_all_the_ways_in_which_steps_can_be_wrong_look_like_a_rule(steps: Sequence[int]) -> None:
    case = bare(steps)
    known, size = facts.of_steps(range(len(steps)), case), len(steps)
    ways = (np.array([number >> step & 1 for step in range(size)], bool) for number in range(1, 2**size - 1))
    rules = [rule for wrong in ways if (rule := when(wrong, known)) is not None and rule.rule]
    assert 0 < len(rules) <= 0.08 * 2**size


@pytest.mark.slow
def test_a_diagnosis_by_formulas_says_when() -> None:
    wrong = changed(lambda y, site: y + 0.01 if 0 < site.step < 3 else y)
    assert fault("decoder/window_chunks", {PLACE: wrong}).where.startswith("in steps with a past, of several tokens")


def test_a_diagnosis_by_a_graph_says_when() -> None:
    expected = golden("model/qwen3_moe")

    def moved(item: Any) -> Any:
        if item.info.name != "logits":
            return item
        start = sum(expected.case.steps[: item.info.step])
        values = item.array + (np.arange(start, start + item.array.shape[1]) % 2 == 0)[None, :, None]
        return tensor("logits", values.astype(np.float32), step=item.info.step, axes=item.info.axes, op=item.info.op)

    candidate: Recording = replace(expected, tensors=[moved(item) for item in expected])
    (logits,) = diagnose(expected, candidate, weights_of(expected, GOLDEN_ROOT / "checkpoints")).faults
    assert logits.where == "in positions of even number (wrong in 4 of 4, right in 3 of 3)"
    assert facts.numbers_of(golden("model/gemma3")) == (4, ["sliding_attention", "full_attention"])


def test_ids_that_a_batch_has_twice_are_told_of_an_embeddings_gradient() -> None:
    tokens = facts.tokens_of(golden("decoder/ragged_decode"), False)
    assert tokens is not None and tokens.ids is not None
    values, counts = np.unique(tokens.ids[tokens.real], return_counts=True)
    bad = np.isin(np.arange(256), values[counts > 1])
    assert when(bad, facts.of_vocabulary(tokens, 256)) == ("that the batch has twice", True)
