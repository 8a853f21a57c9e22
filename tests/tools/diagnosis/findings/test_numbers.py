"""What wrong numbers say by themselves: each fit finds what was done to a right tap, and nothing in an honest one.

It runs `numbers.functions`, `numbers.concentration` and `numbers.inputs`, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from wrong_numbers import evidence, golden, said

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings import Finding, WrongTap
from qwen3_parity.diagnosis.findings.numbers.choices import counted_off
from qwen3_parity.diagnosis.findings.numbers.shapes import other_shape
from qwen3_spec.site import Site

CASE = "encdec/ragged"
CONTEXT = "decoder.layers.1.merged_attn.context"


def findings(tap: str, wrong: Callable[[Site], Array], step: int = 0) -> list[Finding]:
    return said(evidence(CASE, tap, wrong, step))


def golden_values(tap: str = CONTEXT, step: int = 0) -> Array:
    return golden(CASE)[tap, step].values().copy()


def holed(y: Array) -> Array:
    torch.manual_seed(5)
    return torch.nn.functional.dropout(torch.tensor(y), 0.2).numpy()


def one_head(y: Array) -> Array:
    y[:, :, 2] += np.random.default_rng(1).standard_normal(y[:, :, 2].shape).astype(np.float32)
    return y


def dead_channel(y: Array) -> Array:
    y[..., 3] = 0
    return y


def not_a_number(y: Array) -> Array:
    y[0, 1] = np.nan
    return y


DONE: dict[str, tuple[str, str, Callable[[Array], Array]]] = {
    "a factor of head_dim ** -0.5": ("fit.factor", "head_dim ** -0.5", lambda y: y * np.float32(10**-0.5)),
    "an unheard-of factor": ("fit.factor", "1.234", lambda y: y * np.float32(1.234)),
    "nothing but zeros": ("fit.factor", "zero", lambda y: 0 * y),
    "a factor for each channel": ("fit.channel_factor", "head_dim",
                                  lambda y: y * np.linspace(0.5, 2, 10, dtype=np.float32)),
    "a factor for each head": ("fit.axis_factor", "heads",
                               lambda y: y * np.linspace(0.5, 2, 6, dtype=np.float32)[:, None]),
    "a bias": ("fit.channel_offset", "bias", lambda y: y + np.linspace(0.5, 2, 10, dtype=np.float32)),
    "one number added": ("fit.offset", "0.25", lambda y: y + np.float32(0.25)),
    "dropout": ("fit.dropout", "dropout of 0.2", holed),
    "a cap in the wrong place": ("fit.function", "x tanh(x / 30)", lambda y: y * np.tanh(y / np.float32(30))),
    "an unheard-of function": ("fit.function", "→", lambda y: y + np.float32(0.3) * np.sin(y)),
    "bfloat16": ("fit.grid", "bfloat16", lambda y: torch.tensor(y).bfloat16().float().numpy()),
    "one position late": ("fit.shift", "+1 along query", lambda y: np.roll(y, 1, 1)),
    "a shard loaded twice": ("fit.shift", "second half along head_dim is a copy of the first",
                             lambda y: np.concatenate([y[..., :5], y[..., :5]], -1)),
    "heads and channels exchanged": ("fit.axis_order", "head_dim, heads",
                                     lambda y: np.ascontiguousarray(y.swapaxes(2, 3)).reshape(y.shape)),
    "heads in another order": ("from.other_head", "heads", lambda y: y[:, :, [3, 1, 2, 0, 5, 4]]),
    "channels in another order": ("fit.permuted", "head_dim", lambda y: y[..., [1, 0, 3, 2, 5, 4, 9, 8, 7, 6]]),
    "noise in one head": ("fit.concentrated", "heads 2", one_head),
    "a dead channel": ("fit.concentrated", "head_dim 3", dead_channel),
    "NaN": ("fit.not_finite", "NaN", not_a_number),
    "another's numbers": ("fit.unrelated", "nothing in common",
                          lambda y: np.random.default_rng(7).standard_normal(y.shape).astype(np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("kind", DONE)
def test_what_was_done_to_the_numbers_is_found(kind: str) -> None:
    name, text, change = DONE[kind]
    best = findings(CONTEXT, lambda site: change(golden_values()))[0]
    assert (best.name, text in best.says) == (name, True), best


def test_a_fit_that_reproduces_the_numbers_weighs_one() -> None:
    assert findings(CONTEXT, lambda site: golden_values() * np.float32(1.234))[0].weight == 1


def test_without_anything_better_the_size_of_the_error_is_told() -> None:
    noise = np.random.default_rng(2).standard_normal(golden_values().shape).astype(np.float32)
    assert findings(CONTEXT, lambda site: golden_values() + noise)[0].name == "fit.size"


def test_a_tap_of_nan_alone_has_findings_and_no_warning() -> None:
    listed = findings(CONTEXT, lambda site: np.full_like(golden_values(), np.nan))
    assert {finding.name for finding in listed} == {"fit.not_finite", "from.not_finite"}


def test_of_numbers_that_are_not_finite_no_size_is_told_beside_it() -> None:
    def of_a_row(site: Site) -> Array:
        values = golden_values()
        values[0] = np.nan
        return values

    names = [finding.name for finding in findings(CONTEXT, of_a_row)]
    assert names[0] == "fit.not_finite" and "fit.size" not in names


def late_row(y: Array) -> Array:
    """One batch row is one position late, the others are right."""
    y[2] = np.roll(y[2], 1, 0)
    return y


NO_MOVES: dict[str, Callable[[Array], Array]] = {
    "a row of huge numbers, which is the edge of a move": lambda y: (
        y * np.array([1, 1.2, 1615], np.float32)[:, None, None, None]
    ),
    "a row alone": late_row,
    "numbers that come near to zeros": lambda y: np.roll(y, 1, 1) * np.float32(1e-3),
    "nothing but noise": lambda y: y + np.random.default_rng(3).standard_normal(y.shape).astype(np.float32),
}


@pytest.mark.parametrize("kind", NO_MOVES)
def test_what_no_move_reproduces_is_not_moved(kind: str) -> None:
    assert "fit.shift" not in {
        finding.name for finding in findings(CONTEXT, lambda site: NO_MOVES[kind](golden_values()))
    }


def test_of_numbers_that_are_next_to_nothing_no_rule_is_told() -> None:
    nothing = 1e-3 * np.random.default_rng(4).standard_normal(golden_values().shape).astype(np.float32)
    names = {finding.name for finding in findings(CONTEXT, lambda site: nothing) if finding.weight >= 0.5}
    assert names <= {"fit.size", "fit.concentrated"}


def test_an_honest_tap_has_no_finding_of_weight() -> None:
    honest = findings(CONTEXT, lambda site: np.nextafter(golden_values(), np.float32(9)))
    assert all(finding.weight < 0.5 for finding in honest)


MASK, CACHE = "decoder.layers.1.merged_attn.mask", "decoder.layers.1.merged_attn.cache_keys"


def test_a_mask_is_told_in_counts_and_distances() -> None:
    def wrong(site: Site) -> Array:
        mask = golden_values(MASK)
        mask[0, 0, 2] = True
        mask[2, 3, 5] = False
        return mask

    says = {finding.name: finding.says for finding in findings(MASK, wrong)}["mask.bands"]
    assert "2 slots ahead of the query: later tokens" in says and "key 2 for query 0 of batch row 0" in says


def test_a_cache_of_eight_bits_is_told_as_one() -> None:
    def rounded(y: Array) -> Array:
        largest = np.abs(y).max()
        return np.round(y / largest * 127).astype(np.float32) * (largest / 127)

    best = findings(CACHE, lambda site: rounded(golden_values(CACHE, 2)), 2)[0]
    assert (best.name, "8-bit" in best.says) == ("cache.quantised", True), best


PROBS = "decoder.layers.1.merged_attn.probs"


def test_nan_in_rows_that_see_nothing_is_told_as_that() -> None:
    case, tap = "encoder/ragged", "encoder.layers.0.self_attn.probs"
    y = golden(case)[tap, 0].values().copy()
    y[4] = np.nan
    best = said(evidence(case, tap, lambda site: y))[0]
    assert best.name == "softmax.not_finite" and "exactly the rows without a visible key" in best.says


SHAPES: dict[tuple[int, ...], tuple[str, str]] = {
    (3, 4): ("fit.axis_order", "its axes are in another order: (3, 4) in place of (4, 3)"),
    (4, 2): ("fit.shape", "query is 2, not 3"),
    (4, 3, 1): ("fit.shape", "its shape is (4, 3, 1), not (4, 3)"),
}


@pytest.mark.parametrize("actual", SHAPES)
def test_another_shape_is_told_by_its_axes(actual: tuple[int, ...]) -> None:
    assert other_shape(("batch", "query"), (4, 3), actual) == Finding(*SHAPES[actual], 1.0)


def chosen(actual: list[list[int]], expected: list[list[int]]) -> Finding | None:
    values, truth = np.array(actual), np.array(expected)
    return counted_off(
        WrongTap(
            *(("generated_ids", 0), ("batch", "new"), frozenset({"argmax"}), values, truth, None),
            *(np.ones(truth.shape, bool), values != truth, 0.0, lambda name, step: None),
        )
    )


RIGHT = [[38, 1, 4], [15, 40, 32], [5, 15, 36]]


def test_ids_of_a_part_of_the_vocabulary_that_are_shifted_are_told_by_the_first_wrong_ones() -> None:
    finding = chosen([[37, 9, 9], [15, 39, 9], [5, 15, 35]], RIGHT)
    assert finding is not None and finding.name == "fit.ids_shifted"
    assert "-1 off: 37 for 38, 39 for 40, 35 for 36; ids up to 15 are right, and from 36 on" in finding.says
    everywhere = chosen([[39, 9, 9], [16, 9, 9], [6, 9, 9]], RIGHT)
    assert everywhere is not None and "+1 off: 39 for 38, 16 for 15, 6 for 5" in everywhere.says
    assert "are right" not in everywhere.says


@pytest.mark.parametrize(
    "actual", [[[37, 9, 9], [15, 41, 9], [5, 15, 35]], [[37, 1, 4], [15, 40, 32], [5, 15, 36]], RIGHT]
)
def test_other_choices_are_not_said_to_be_shifted(actual: list[list[int]]) -> None:
    assert chosen(actual, RIGHT) is None
