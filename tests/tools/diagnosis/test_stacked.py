"""Many mistakes run side by side: each makes of a tap what it makes of it alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from detection.derived.seed import Compute, case_of
from detection.levels.thinned import recorded
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.blame.values import Values
from qwen3_parity.diagnosis.faults import blame
from qwen3_parity.diagnosis.judged import Judged, judged, predicted, predictions
from qwen3_parity.diagnosis.stacked import Stacked, runs_at_a_time
from qwen3_parity.diagnosis.suspects import Suspect, every_suspect
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_CASE = "generation/merged"
_AHEAD = ("wiring.", "cache.other_layer")
_LOOKS = "residual.other_stream"
"""Mistakes that read other taps; of what follows from themselves there is no right number."""


def _halved(site: Site) -> Result:
    y, _ = OPS[site.place.op].truth(site)
    return y / 2, np.zeros(y.shape)


@cache
def _of(case: str, level: str, mistake: Compute = _halved) -> Judged:
    golden, candidate = recorded(case, {"*.merged_attn.v_proj": mistake}, level)
    blamed = blame(TapJudge.of(candidate, case_of(case).weights, golden))
    evidence = blamed.evidence(blamed.faults[-1].wrong[-1])
    assert not isinstance(evidence, str)
    return judged(evidence)


def _suspects(tap: Judged) -> Sequence[Suspect]:
    failures: list[str] = []
    suspects = [x for x in every_suspect(tap.evidence, failures) if not x.hypothesis.name.startswith(_AHEAD)]
    assert not failures
    return suspects


@pytest.mark.slow
@pytest.mark.parametrize(("case", "level"), [(_CASE, "layer"), (_CASE, "logits"), ("generation/merged", "layer")])
def test_a_mistake_makes_in_a_stack_what_it_makes_alone(case: str, level: str) -> None:
    tap = _of(case, level)
    assert tap.runs > 1
    every = _suspects(tap)
    sample = [*every[::41], *(x for x in every if x.hypothesis.name == _LOOKS)]
    for suspect, result in predictions(sample, tap):
        alone = predicted(suspect, tap)
        assert (result is None) == (alone is None), suspect
        if result is not None and alone is not None:
            np.testing.assert_allclose(result[0], alone[0], rtol=1e-6, atol=1e-9, err_msg=str(suspect))


def test_every_mistake_of_a_stack_comes_back_once_and_in_its_order() -> None:
    tap = _of(_CASE, "layer")
    suspects = _suspects(tap)[:150]
    assert [suspect for suspect, _ in predictions(suspects, tap)] == list(suspects)


def test_a_mistake_made_twice_is_computed_once_where_what_it_reads_is_right() -> None:
    tap, count = _of(_CASE, "layer"), 0

    def counted(site: Site) -> Result:
        nonlocal count
        count += 1
        return _halved(site)

    pattern, site = "decoder.layers.{layer}.mlp.down_proj", tap.evidence.site
    for _ in range(3):
        Stacked(tap.replayed, [{pattern: counted}], tap.memory).result(site.place.name, site.step)
    assert count == 1


def test_a_mistake_that_looks_at_other_taps_is_not_remembered() -> None:
    tap = _of(_CASE, "layer")
    site, attention = tap.evidence.site, "decoder.layers.{layer}.merged_attn."

    def queries_of_values(here: Site) -> Result:
        y, values = OPS[here.place.op].truth(here)[0], here.values.value(here.sibling("v_proj"), here.step)
        assert values is not None
        return y * np.square(values).sum(), None

    alone = {f"{attention}q_proj": queries_of_values}
    both = {**alone, f"{attention}v_proj": _halved}
    stacks = [Stacked(tap.replayed, [run], tap.memory) for run in (alone, both)]
    for stack in stacks:
        stack.result(site.place.name, site.step)
    first, second = (stack.computed[f"{attention}q_proj".format(layer=1), site.step] for stack in stacks)
    assert first is not None
    assert second is not None
    assert not np.allclose(first, second)


def test_a_mistake_of_another_shape_stands_apart() -> None:
    tap = _of(_CASE, "layer")
    site, pattern = tap.evidence.site, "decoder.layers.{layer}.mlp.down_proj"
    runs = [{pattern: _halved}, {pattern: lambda here: (here.inputs[0][..., :1], None)}]
    stack = Stacked(tap.replayed, runs)
    assert stack.result(site.place.name, site.step).keys() == {0}


def test_a_mistake_that_cannot_be_made_fails_by_itself() -> None:
    tap = _of(_CASE, "layer")
    site, pattern = tap.evidence.site, "decoder.layers.{layer}.mlp.down_proj"

    def broken(_: Site) -> Result:
        raise ValueError

    stack = Stacked(tap.replayed, [{pattern: broken}, {pattern: _halved}])
    results = stack.result(site.place.name, site.step)
    assert results[0] is None
    assert results[1] is not None


def test_gradients_that_add_up_all_rows_are_run_one_by_one() -> None:
    values = Values(case_of("training/causal").golden, case_of("training/causal").weights)
    assert runs_at_a_time(values) == 1
