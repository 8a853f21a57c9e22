"""What explains some wrong taps of a place is run on each of them; what it leaves is another mistake, or listed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from seeded import Compute, diagnosed, fault
from wrong_numbers import golden

from qwen3_parity.diagnosis import Diagnosis
from qwen3_parity.diagnosis.every_tap import WORK, affordable
from qwen3_parity.diagnosis.explain_fault import spread
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.report.diagnoses import terminal, to_json
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

CASE = "encdec/ragged"
NORM = "decoder.layers.{layer}.post_attention_layernorm"
Key = tuple[int, int]


def taps() -> Iterator[Key]:
    """Layer and step of every tap of a place of the decoder, in the order of the run."""
    config = golden(CASE).case.config
    yield from (
        (layer, step) for step in range(len(golden(CASE).case.steps)) for layer in range(config.num_hidden_layers)
    )


def looked_at(count: int) -> set[Key]:
    """Those of them that mistakes are looked for on."""
    verdicts = [OpVerdict(f"{layer}", step, "rms_norm") for layer, step in taps()]
    return {(int(verdict.name), verdict.step) for verdict in spread(verdicts, count)}


def eps(value: float) -> Compute:
    def compute(site: Site) -> Result:
        return OPS["rms_norm"].truth(replace(site, config=replace(site.config, rms_norm_eps=value)))

    return compute


def unheard_of(site: Site) -> Result:
    y, unit = OPS["rms_norm"].truth(site)
    return np.cos(9 * y), unit


def no_norm(site: Site) -> Result:
    return np.asarray(site.inputs[0], np.float64), OPS["rms_norm"].truth(site)[1]


def at(keys: set[Key], there: Compute, elsewhere: Compute) -> Compute:
    return lambda site: (there if (site.place.layer, site.step) in keys else elsewhere)(site)


def text(diagnosis: Diagnosis) -> str:
    console = Console(width=200, file=StringIO(), record=True)
    console.print(terminal(diagnosis))
    return console.export_text()


def hidden(count: int, sample: int) -> set[Key]:
    """Some taps that no mistake is looked for on."""
    rest = [key for key in taps() if key not in looked_at(sample)]
    assert len(rest) > count
    return set(rest[:count])


@pytest.mark.parametrize(("glob", "sample"), [("*", 12), pytest.param("*.output", 4, marks=pytest.mark.slow)])
def test_a_tap_with_a_mistake_of_its_own_is_listed(glob: str, sample: int) -> None:
    (hidden_tap,) = hidden(1, sample)
    diagnosis = diagnosed(CASE, {NORM: at({hidden_tap}, unheard_of, eps(1e-2))}, taps=glob)
    (said,) = diagnosis.faults
    best, every = said.explanations[0], len(list(taps()))
    assert (best.name, best.whole, best.of) == ("norm.eps", every - 1, every)
    assert [(name.split(".")[2], step) for name, step in said.left] == [(str(hidden_tap[0]), hidden_tap[1])]
    assert f"at {every - 1} of {every} taps" in text(diagnosis)
    assert f"1 of {every} wrong taps is not explained: {said.left[0][0]} (step {hidden_tap[1]})" in text(diagnosis)
    assert to_json(diagnosis)["faults"][0]["left"] == [list(said.left[0])]


def test_taps_with_another_known_mistake_have_its_name() -> None:
    others = hidden(2, 12)
    said = fault(CASE, {NORM: at(others, no_norm, eps(1e-2))})
    said_of = [(explanation.name, explanation.whole, explanation.of) for explanation in said.explanations]
    assert said_of[:2] == [("norm.eps", 13, 15), ("norm.no_norm", 2, 2)]
    assert not said.left


def test_what_explains_every_tap_leaves_none() -> None:
    said = fault(CASE, {NORM: eps(1e-2)})
    assert (said.explanations[0].whole, said.explanations[0].of, said.left, said.untried) == (15, 15, (), 0)


def test_more_taps_than_may_be_computed_are_counted() -> None:
    assert affordable(WORK, 12) == 12 and affordable(0, 12) > 10**6 and affordable(24 * WORK, 12) == 0
