"""What fits fewer than half of the wrong taps is something that the numbers say, and no name with a fix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from seeded import Compute, changed, diagnosed, fault

from qwen3_golden import Array
from qwen3_parity.diagnosis.explained import certain
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.report.diagnoses import to_json, verdict
from qwen3_spec.site import Site

CASE = "decoder/plain"
NORM = "decoder.layers.{layer}.input_layernorm"


def grows(y: Array, site: Site) -> Array:
    """A factor of its own in every layer and step."""
    return y * (1 + 0.12 * site.step + 0.01 * (site.place.layer or 0) + 0.05)


def ahead(ids: Array, site: Site) -> Array:
    """The counter runs ahead by one more at every decode step."""
    return ids + site.step * (site.step + 1)


GROWING: dict[str, tuple[str, Compute]] = {
    "a norm by a factor of its own in every tap": (NORM, changed(grows)),
    "positions that run ahead": ("decoder.position_ids", changed(ahead)),
}


@pytest.mark.parametrize("kind", GROWING)
def test_a_number_that_is_another_at_every_tap_names_nothing(kind: str) -> None:
    place, wrong = GROWING[kind]
    diagnosis = diagnosed(CASE, {place: wrong})
    (said,) = diagnosis.faults
    assert not said.explanations and not said.is_known
    few = [finding.says for finding in said.findings if finding.name == "fit.few_taps"]
    assert few and few[0].startswith("at 1 of ")
    assert f"{place.replace('{layer}', '*')}: no known mistake" in verdict(diagnosis)
    assert not to_json(diagnosis)["faults"][0]["explanations"]


def test_the_same_number_at_every_tap_keeps_its_name() -> None:
    said = fault(CASE, {NORM: changed(lambda y, _: np.asarray(1.12 * y))})
    assert said.name == "norm.scaled" and said.explanations[0].fix


HALF = Explanation("norm.scaled", "is scaled by 1.12", "", "", share=0.5, whole=5, partly=1, of=12, contradicted=3)


def test_half_of_the_taps_are_enough_and_fewer_are_not() -> None:
    assert certain([HALF]) == ([HALF], [])
    first, rest = replace(HALF, whole=2, partly=0), replace(HALF, whole=10, partly=0, of=10)
    assert certain([first, rest]) == ([first, rest], [])
    most, last = replace(HALF, whole=10, partly=0), replace(HALF, whole=1, partly=0, of=2)
    names, (finding,) = certain([most, last])
    assert names == [most] and finding.says.startswith("at 1 of 2 taps this fits")
    names, (finding,) = certain([replace(HALF, partly=0)])
    assert not names and finding.name == "fit.few_taps"
    assert finding.says == (
        "at 5 of 12 taps this fits: it is scaled by 1.12, though 3 right taps would be wrong too (norm.scaled)"
    )


@pytest.mark.parametrize(("part", "names"), [("batch 0", 0), ("heads 3", 1), ("", 1)])
def test_what_fits_some_batch_rows_alone_names_nothing(part: str, names: int) -> None:
    """No line of code does otherwise in a row of a batch; in a head, which a shard may have, it does."""
    assert len(certain([replace(HALF, whole=0, partly=6, part=part)])[0]) == names
    assert certain([replace(HALF, part=part)])[0]


def test_what_fits_one_of_several_taps_in_half_precision_is_not_said() -> None:
    single = replace(HALF, whole=1, partly=0)
    assert certain([single])[1] and not certain([single], narrow=True)[1]
    assert certain([replace(HALF, partly=0)], narrow=True)[1]


@pytest.mark.slow
def test_two_taps_that_are_wrong_alike_do_not_explain_each_other() -> None:
    attention = "decoder.layers.{layer}.merged_attn"
    both = {f"{attention}.{name}": changed(lambda y, _: np.cos(9 * np.arange(y.size)).reshape(y.shape)) for name in
            ("k_proj", "v_proj")}  # fmt: skip
    for said in diagnosed(CASE, both).faults:
        assert not said.explanations
        assert "wrong itself" in next(finding.says for finding in said.findings if finding.name == "fit.wrong_alike")
