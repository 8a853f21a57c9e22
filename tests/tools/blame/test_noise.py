"""The noise of ops without a tap between them: the same in whatever order and however many at a time it is asked.

It runs `blame.repeated`, too.
"""

from __future__ import annotations

import numpy as np
import pytest

from detection.derived.seed import case_of
from detection.levels.thinned import thinned
from qwen3_golden import Array
from qwen3_parity.blame import noise
from qwen3_parity.blame.noise import group_noise
from qwen3_parity.blame.values import Values

_STEPS = 3


def _values() -> Values:
    case = case_of("encdec/ragged")
    return Values(thinned(case.golden, "logits"), case.weights, case.golden)


def _noise(values: Values, step: int) -> Array:
    site = values.site("logits", step)
    assert site is not None
    return group_noise(site, values.compute(site)[0])


def test_noise_does_not_depend_on_what_was_asked_before() -> None:
    forth, back = _values(), _values()
    forward = [_noise(forth, step) for step in range(_STEPS)]
    again = [_noise(back, step) for step in reversed(range(_STEPS))]
    for first, second in zip(forward, reversed(again), strict=True):
        np.testing.assert_array_equal(first, second)


def test_draws_side_by_side_are_as_large_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    together = _noise(_values(), 0)
    monkeypatch.setattr(noise, "copies_at_a_time", lambda _values, _most: 1)
    ratio = np.sqrt(together.mean() / _noise(_values(), 0).mean())
    assert 0.5 < ratio < 2


def test_noise_is_worked_out_once_for_what_a_tap_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    values = _values()
    first = _noise(values, 0)
    monkeypatch.setattr(noise, "_group_noise", lambda *_: 0)
    assert _noise(values.another(), 0) is first
    site = values.site("logits", 0)
    assert site is not None
    assert group_noise(site, values.compute(site)[0] + 1) is not first


def test_noise_of_a_run_in_which_something_is_known_otherwise_is_its_own() -> None:
    values = _values()
    first = _noise(values, 0)
    assert _noise(values.overridden({}), 0) is not first
    assert _noise(values.another(dropped=frozenset({"nothing"})), 0) is not first


def test_a_run_that_failed_midway_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    values, as_stored = _values(), noise.as_stored

    def fails(*_: object) -> Array:
        raise ValueError

    monkeypatch.setattr(noise, "as_stored", fails)
    with pytest.raises(ValueError):
        _noise(values, 0)
    monkeypatch.setattr(noise, "as_stored", as_stored)
    np.testing.assert_array_equal(_noise(values, 0), _noise(_values(), 0))
