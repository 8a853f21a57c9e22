"""A norm that divides by another row's, step's or head's statistic is told by whose it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from seeded import changed, fault
from wrong_numbers import evidence, golden

from qwen3_golden import GOLDEN_ROOT, Array, tensor
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.findings import Finding
from qwen3_parity.diagnosis.findings.of_site import wrong_tap
from qwen3_parity.diagnosis.findings.provenance.statistic import other_statistic
from qwen3_parity.diagnosis.judged import judged
from qwen3_parity.slices.stored import graph_of
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

NORM, HEADS = "decoder.layers.1.input_layernorm", "decoder.layers.1.merged_attn.q_norm"
Wrong = Callable[[Site], Array]


def root(x: Array, site: Site) -> Array:
    """The root mean square of rows, with eps."""
    return np.sqrt(np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True) + site.config.rms_norm_eps)


def truth(site: Site) -> Array:
    return OPS[site.place.op].truth(site)[0]


def first_row(site: Site) -> Array:
    roots = root(site.inputs[0], site)
    return np.asarray(truth(site) * roots / roots[:1])


def step_before(site: Site) -> Array:
    before = site.values.value(site.names[0], site.step - 1) if site.step else site.inputs[0]
    assert before is not None
    return np.asarray(truth(site) * root(site.inputs[0], site) / root(before, site)[:, -1:])


def first_head(site: Site) -> Array:
    y = truth(site)
    roots = root(site.inputs[0].reshape(y.shape), site)
    return np.asarray(y * roots / roots[:, :, :1])


def statistic_of(case: str, name: str, wrong: Wrong, step: int) -> Finding | None:
    tap = wrong_tap(judged(evidence(case, name, wrong, step)))
    assert tap is not None and tap.wrong.any()
    with np.errstate(all="ignore"):
        return other_statistic(tap)


DIVIDED: dict[str, tuple[str, str, Wrong, int, str, str]] = {
    "the first row's": ("encdec/ragged", NORM, first_row, 2, "from.other_row",
        "batch rows 1–2 are divided by the root mean square of decoder.layers.1.input, at batch row 0"),
    "the step before's": ("decoder/plain", NORM, step_before, 2, "from.other_step",
        "all of it is divided by the root mean square of decoder.layers.1.input of step 1, at the same place"),
    "the last position's of the step before": ("decoder/plain", NORM, step_before, 1, "from.other_step",
        "all of it is divided by the root mean square of decoder.layers.1.input of step 0, at position 4"),
    "the first head's": ("encdec/ragged", HEADS, first_head, 0, "from.other_head",
        "heads 1–5 are divided by the root mean square of decoder.layers.1.merged_attn.q_proj, at head 0"),
}  # fmt: skip


@pytest.mark.parametrize("whose", DIVIDED)
def test_whose_statistic_it_is_is_told(whose: str) -> None:
    case, name, wrong, step, kind, says = DIVIDED[whose]
    assert statistic_of(case, name, wrong, step) == Finding(kind, says, 1.0)


FACTORS: dict[str, Wrong] = {
    "one factor": lambda site: 1.12 * truth(site),
    "a factor of each row": lambda site: truth(site) * np.array([1, 1.1, 0.9])[:, None, None],
    "a factor of each channel": lambda site: truth(site) * np.linspace(0.9, 1.1, truth(site).shape[-1]),
    "zeros": lambda site: 0 * truth(site),
}


@pytest.mark.parametrize("factor", FACTORS)
def test_other_factors_are_nobodys(factor: str) -> None:
    assert statistic_of("encdec/ragged", NORM, FACTORS[factor], 2) is None


@pytest.mark.slow
def test_it_is_told_before_a_factor_of_each_row() -> None:
    place = "decoder.layers.{layer}.input_layernorm"
    said = fault("decoder/ragged_decode", {place: changed(lambda _, site: first_row(site))})
    assert said.name == "from.other_row" and any("norm.other_statistic" in finding.says for finding in said.findings)


def test_a_golden_with_a_graph_has_it_too() -> None:
    honest, name = golden("model/qwen3_moe"), "model.layers.1.input_layernorm"
    item, x = honest[name, 0], honest["model.layers.0", 0].values().astype(np.float64)
    roots = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 3e-5)
    wrong = tensor(name, (item.values() * roots / roots[:, -1:]).astype(np.float32), axes=item.info.axes)
    order = graph_of(honest.graph, honest.source).taps  # what reads it would be right without it
    taps = [wrong if tap.key == item.key else tap for tap in honest if order.get(tap.key, 0) <= order[item.key]]
    candidate = replace(honest, tensors=taps, parameters=[])
    faults = diagnose(honest, candidate, weights_of(honest, GOLDEN_ROOT / "checkpoints"), partial=True).faults
    said = next(said.findings[0] for said in faults if any(verdict.name == name for verdict in said.fault.wrong))
    says = "positions 0–3 are divided by the root mean square of model.layers.0, at position 4"
    assert said == Finding("from.other_slot", says, 1.0)
