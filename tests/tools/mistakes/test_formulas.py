"""A wrong formula is only a formula: its rounding is measured, its free numbers are fitted, and both hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional
from wrong_numbers import evidence

from qwen3_golden import Array
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.mistakes.activation import ACTIVATIONS
from qwen3_parity.mistakes.by_op import LIBRARY
from qwen3_parity.mistakes.fitting import fitted, sampled
from qwen3_parity.mistakes.formulas import Formula, Wrong, combined, inputs, on_inputs
from qwen3_parity.mistakes.observed import observe
from qwen3_spec.site import Site

CASE, ACT, SUM = "encdec/ragged", "decoder.layers.1.mlp.act", "decoder.layers.1.attn_residual"

TORCHS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "mish": functional.mish,
    "elu": functional.elu,
    "selu": functional.selu,
    "softplus": functional.softplus,
    "hard_swish": functional.hardswish,
    "logsigmoid": functional.logsigmoid,
}
"""torch's own kernels."""


def on(*values: Array, tap: str = ACT) -> Site:
    """A site of an op with these inputs, float32."""
    return replace(evidence(CASE, tap).site, inputs=tuple(value.astype(np.float32) for value in values))


def drawn(*shape: int, size: float = 1.0, seed: int = 0) -> Array:
    return size * np.random.Generator(np.random.PCG64(seed)).standard_normal(shape)


def units_off(wrong: Wrong, site: Site, honest: Wrong | None = None, factor: float = 1.0) -> Array:
    """How far an honest float32 on the same inputs, or else the formula's own, is from the formula, in its units."""
    y, unit = Formula(wrong)(replace(site, inputs=inputs(site))) or (np.zeros(0), None)
    assert unit is not None and unit.shape == y.shape and (unit > 0).all()
    narrow = (honest or wrong)(site)
    assert narrow is not None and narrow.dtype == np.float32
    return np.abs(np.float32(factor) * narrow.astype(np.float32) - y) / unit


@pytest.mark.parametrize("name", [name for name, _ in ACTIVATIONS])
def test_honest_float32_stays_within_the_headroom_of_measured_units_and_little_more_does_not(name: str) -> None:
    function, x = dict(ACTIVATIONS)[name], drawn(2, 50, 40, size=3.0)

    def wrong(site: Site) -> Array:
        return np.asanyarray(function(np.asanyarray(site.inputs[0])))

    def torchs(site: Site) -> Array:
        return np.asarray(TORCHS[name](torch.tensor(site.inputs[0])))

    most, honest = headroom("op", "swiglu").max, torchs if name in TORCHS else None
    assert units_off(wrong, on(x, x), honest).max() <= most
    assert np.mean(units_off(wrong, on(x, x), honest, factor=1.001) > most) > 0.4


def test_sums_that_cancel_have_the_rounding_of_their_terms() -> None:
    x = drawn(1, 50, 64) + 1000

    def centred(site: Site) -> Array:
        (rows, *_) = site.inputs
        return np.asanyarray(rows - rows.mean(axis=-1, keepdims=True))

    far = units_off(centred, on(x, x))
    assert 0 < far.max() <= headroom("op", "rms_norm").max
    result = Formula(lambda site: centred(replace(site, inputs=inputs(site))))(on(x, x))
    assert result is not None and result[1] is not None and np.median(result[1]) > 2.0**-24 * 100


def test_a_unit_is_the_same_whenever_it_is_measured_and_nobody_asks_within_a_group() -> None:
    site = on(drawn(1, 3, 4), drawn(1, 3, 4, seed=1))
    formula = Formula(on_inputs(lambda gate, up: np.where(gate > 0, gate, 0) * up))
    first, again = formula(site), formula(site)
    assert first is not None and again is not None and np.array_equal(np.asarray(first[1]), np.asarray(again[1]))
    values = site.values.another(units=False)
    bare = formula(replace(site, values=values))
    assert bare is not None and not np.asarray(bare[1]).any() and np.array_equal(bare[0], first[0])
    assert Formula(lambda _: None)(site) is None


@pytest.mark.parametrize(("a", "b", "says"), [(1.0, 0.37, "1 and 0.37"), (0.93, 1.0 / 3, "0.93 and 0.333333")])
def test_free_numbers_are_fitted_and_written_plainly_where_plain_ones_fit(a: float, b: float, says: str) -> None:
    of = evidence(CASE, SUM, lambda site: np.float32(a) * site.inputs[0] + np.float32(b) * site.inputs[1])
    guesses = fitted(
        of.site, observe(of.site), "some.name", "", "{:.6g} and {:.6g}".format,
        lambda a, b, site: on_inputs(lambda x, y: a * x + b * y)(site), (1.0, 1.0),
    )  # fmt: skip
    assert [guess.says for guess in guesses] == [says]


def test_numbers_that_explain_nothing_are_no_guess() -> None:
    of = evidence(CASE, SUM, lambda site: site.inputs[0] * site.inputs[1])
    assert not list(
        fitted(of.site, observe(of.site), "some.name", "", str, lambda a, s: a * inputs(s)[0], (1.0,))
    )  # fmt: skip
    assert not list(fitted(of.site, None, "some.name", "", str, lambda a, s: a * inputs(s)[0], (1.0,)))


PROBS = "decoder.layers.1.merged_attn.probs"


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("tap", [ACT, SUM, PROBS, "decoder.layers.1.input_layernorm"])
@pytest.mark.parametrize("value", [0.0, 1e-42, 3e38, np.inf, np.nan])
def test_a_tap_of_equal_numbers_fails_no_hypothesis(tap: str, value: float) -> None:
    of = evidence(CASE, tap, lambda site: np.full_like(evidence(CASE, tap).actual, value))
    every = [guess for library in LIBRARY[of.site.place.op] for guess in library(of.site)]
    with np.errstate(all="ignore"):
        results = [result for guess in every if (result := guess.compute(of.site)) is not None]
    assert all(result[0].dtype.kind == "f" for result in results)
    assert not any(of.share(result) <= 1 for result in results if not np.isfinite(value))


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("wrong", [lambda a, s: a * 1e300 * inputs(s)[0], lambda a, s: inputs(s)[0] / (a * 1e-300)])
def test_numbers_that_leave_the_range_of_floats_are_no_guess(wrong: Callable[..., Array], value: float) -> None:
    of = evidence(CASE, SUM, lambda site: np.full(site.inputs[0].shape, value))
    assert not list(fitted(of.site, observe(of.site), "some.name", "", str, wrong, (1.0,)))


@pytest.mark.parametrize("tap", [SUM, "decoder.layers.1.merged_attn.q_norm", PROBS])
def test_a_sample_has_the_rows_that_are_wrong_with_their_inputs(tap: str) -> None:
    of = evidence(CASE, tap, lambda site: evidence(CASE, tap).actual + np.float32(0.25))
    whole = observe(of.site)
    assert whole is not None
    part, few = sampled(of.site, whole)
    assert few.wrong.any() and few.actual.size <= whole.actual.size
    y = part.values.compute(part)[0]
    assert np.allclose(y, few.truth) and y.shape == few.actual.shape


def test_every_choice_of_parts_has_the_names_and_words_of_those_that_are_wrong() -> None:
    rows = list(combined([("", "", 1, 0), ("a", "does a", 2, 1)], [("", "", 3, 0), ("b", "does b", 4, 2)]))
    assert rows[0] == ([], "", [1, 3], 0) and rows[-1] == (["a", "b"], "does a and does b", [2, 4], 3)
