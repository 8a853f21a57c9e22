"""Honest arithmetic never fails: every other way to compute the same network passes, and no op is blamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from detection.honest.ours import Patch, ours
from detection.honest.run import VARIATIONS, Outcome, run
from detection.honest.variation import Variation, everywhere
from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.recording.ours.network import EncoderDecoder

ENCDEC = GOLDEN_ROOT / "cases" / "encdec"
QUICK = [variation for variation in VARIATIONS if not variation.slow]
FEW = [
    *(ENCDEC / "unrotated.pb", ENCDEC.parent / "decoder" / "window_even.pb", ENCDEC / "bfloat16.pb"),
    ENCDEC.parent / "training" / "causal.pb",
]
FEW += [ENCDEC / "unpadded.pb", ENCDEC.parent / "classic" / "post_norm.pb"]
compiles = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*torch.jit.*", "ignore::UserWarning")


def named(name: str) -> Variation:
    return next(variation for variation in VARIATIONS if variation.name == name)


def alarms(outcomes: Iterable[Outcome]) -> list[str]:
    return [f"{outcome.case}: {alarm}" for outcome in outcomes for alarm in outcome.alarms]


def test_there_are_many_variations_each_with_a_name_of_its_own() -> None:
    assert len({variation.name for variation in VARIATIONS}) == len(VARIATIONS) >= 28


@pytest.mark.sample(every=29)
@pytest.mark.parametrize("variation", QUICK, ids=lambda variation: variation.name)
def test_an_honest_variation_passes_and_nobody_is_blamed(variation: Variation, tmp_path: Path) -> None:
    path = next(path for path in FEW if variation.applies(read(path)))
    outcomes = list(run(variation, [path], tmp_path))
    assert len(outcomes) == 1 and outcomes[0].verdicts.compared
    assert not alarms(outcomes)


def test_a_case_without_a_tap_of_a_level_is_not_judged_there(tmp_path: Path) -> None:
    outcomes = run(named("eager"), [ENCDEC.parent / "block" / "causal.pb"], tmp_path, ("logits", "layer"))
    assert [outcome.level for outcome in outcomes] == ["layer"]


@compiles
@pytest.mark.slow  # compiled by the machine's own C++, minutes; not for every ATEN_CPU_CAPABILITY
@pytest.mark.parametrize(("name", "cases"), [("compiled", ["window_odd", "ragged"]), ("flex_compiled", ["window_odd"])])
def test_a_compiled_variation_passes_at_these_shapes(name: str, cases: list[str], tmp_path: Path) -> None:
    paths = [ENCDEC.parent / "encoder" / f"{case}.pb" for case in cases]
    outcomes = list(run(replace(named(name), applies=everywhere), paths, tmp_path))
    assert len(outcomes) == len(cases) and all(outcome.verdicts.compared for outcome in outcomes)
    assert not alarms(outcomes)


@pytest.mark.slow
def test_most_variations_compute_other_bits(tmp_path: Path) -> None:
    chosen = [named(name) for name in ("sdpa", "rows_alone", "linear_float64", "softmax_exp2", "rope_interleaved")]
    assert not any(outcome.verdicts.identical for variation in chosen for outcome in run(variation, FEW[:1], tmp_path))


def off_by_one_part_in_1000(runner: EncoderDecoder) -> Iterable[Patch]:
    def forward(self: nn.Linear, x: torch.Tensor) -> Any:
        return nn.functional.linear(x, self.weight, self.bias) * 1.001

    return ((nn.Linear, "forward", forward),)


def test_a_variation_that_is_not_honest_is_an_alarm_and_a_blame(tmp_path: Path) -> None:
    wrong = Variation("wrong", "projections a thousandth too large", ours(off_by_one_part_in_1000))
    (outcome,) = run(wrong, FEW[:1], tmp_path)
    assert outcome.verdicts.exit_code == 1
    assert outcome.blamed and all("_proj" in name or "logits" in name for name in outcome.blamed)


def test_a_change_lasts_no_longer_than_the_run(tmp_path: Path) -> None:
    before = nn.Linear.forward
    list(run(named("linear_einsum"), FEW[:1], tmp_path))
    assert nn.Linear.forward is before


@pytest.mark.slow  # a process that waits for every import
def test_a_variation_with_an_environment_runs_in_it(tmp_path: Path) -> None:
    (outcome,) = run(replace(named("kernels_default")), FEW[:1], tmp_path)
    kernels = read(tmp_path / "encdec" / "unrotated.pb").provenance.kernels
    assert kernels.split()[:2] == ["cpu", "DEFAULT"] and not outcome.alarms


@pytest.mark.slow
def test_rows_alone_are_put_back_in_their_places(tmp_path: Path) -> None:
    def shapes(name: str) -> Mapping[tuple[str, int], tuple[int, ...]]:
        list(run(named(name), FEW[:1], tmp_path))
        return {item.key: item.array.shape for item in read(tmp_path / "encdec" / "unrotated.pb")}

    assert shapes("rows_alone") == shapes("eager") == shapes("steps_single")
