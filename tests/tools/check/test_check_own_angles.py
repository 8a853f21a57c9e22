"""Angles are noise, too: which floor a run is judged by, and how closely its cos and sin are looked at.

It runs `blame.tables`, `qwen3_spec.angles`, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from detection.honest.ours import ours
from detection.honest.own_angles import VARIATIONS, tables_of
from detection.honest.run import judge, record_all
from detection.honest.variation import Variation
from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity import check
from qwen3_parity.blame import Values, replay
from qwen3_parity.blame.rotations import angles_off
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.own_angles import angles_differ
from qwen3_parity.recording.record import record

CASES = GOLDEN_ROOT / "cases"
FAR = [f"long/position_{n}" for n in (4096, 32768)] + ["decoder/yarn_mscale"]


def golden_of(case: str) -> Recording:
    return read(CASES / f"{case}.pb")


def named(name: str) -> Variation:
    return next(variation for variation in VARIATIONS if variation.name == name)


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("case", FAR)
@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda variation: variation.name)
def test_honest_angles_pass_at_far_positions_and_no_rotation_is_blamed(
    variation: Variation, case: str, tmp_path: Path
) -> None:
    (path,) = record_all(variation, [CASES / f"{case}.pb"], tmp_path)
    assert not judge(variation, read(path), tmp_path / f"{case}.pb").alarms


@pytest.fixture(scope="module")
def exact_angles(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("exact")
    record_all(named("fused_float64"), [CASES / "long/position_4096.pb"], folder)
    return read(folder / "long/position_4096.pb")


def test_a_run_that_says_it_turns_by_the_goldens_tables_keeps_the_narrow_floors(exact_angles: Recording) -> None:
    run = pb.Run.FromString(exact_angles.run.SerializeToString())
    run.golden_tables = True
    golden = golden_of("long/position_4096")
    assert check(golden, exact_angles).word == "parity"
    verdicts = check(golden, replace(exact_angles, run=run))
    assert verdicts.word == "divergence" and any("_rope" in problem.where for problem in verdicts.problems)


Tables = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def recorded(case: str, angles: Tables, path: Path, *, shown: bool = True) -> Recording:
    """Our run by these angles."""

    def shows(row: pb.Tap) -> bool:
        return shown or not row.pattern.endswith((".inv_freq", "cos", "sin"))

    record(golden_of(case), path, ours(tables_of(angles), shows=shows)(torch.float32))
    return read(path)


def turns(inv_freq: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
    return torch.fmod(position_ids[..., None].float() * inv_freq, torch.tensor(2 * torch.pi))


def scaled(factor: float) -> Tables:
    return lambda inv_freq, position_ids: position_ids[..., None].double() * inv_freq.double() * factor


@pytest.mark.parametrize("case", FAR)
def test_angles_reduced_by_a_float32_turn_fail_at_cos_and_sin_without_a_checkpoint(case: str, tmp_path: Path) -> None:
    verdicts = check(golden_of(case), recorded(case, turns, tmp_path / "run.pb"))
    wrong = {tap.op: tap for tap in verdicts.taps if not tap.passed}
    assert {"cos", "sin"} <= set(wrong) and min(wrong[op].share for op in ("cos", "sin")) > 2
    assert "position × inv_freq" in str(wrong["cos"].problem)


def alone(case: str, candidate: Recording) -> dict[str, float]:
    """The worst share of each op, judged on the candidate's own inputs."""
    shares: dict[str, float] = {}
    weights = weights_of(candidate, GOLDEN_ROOT / "checkpoints")
    for verdict in replay(candidate, weights, golden_of(case)):
        shares[verdict.op] = max(shares.get(verdict.op, 0), verdict.share)
    return shares


def test_the_same_angles_in_a_fused_kernel_are_no_fault(tmp_path: Path) -> None:
    case = "long/position_4096"
    candidate = recorded(case, turns, tmp_path / "run.pb", shown=False)
    assert check(golden_of(case), candidate).word == "parity"
    assert alone(case, candidate)["rope"] <= 1


@pytest.mark.parametrize("case", FAR)
def test_a_fused_rotation_by_a_wrong_theta_is_blamed(case: str, tmp_path: Path) -> None:
    candidate = recorded(case, scaled(1 + 1e-5), tmp_path / "run.pb", shown=False)
    shares = alone(case, candidate)
    assert shares["rope"] > 2 and shares["scores"] < 1


def test_how_far_frequencies_are_off_is_read_off_a_fused_rotation(tmp_path: Path) -> None:
    case, tap = "long/position_4096", "encoder.layers.0.self_attn.q_rope"
    candidate = recorded(case, scaled(1 + 2.0**-20), tmp_path / "run.pb", shown=False)
    judge = TapJudge.of(candidate, weights_of(candidate, GOLDEN_ROOT / "checkpoints"), golden_of(case))
    evidence = judge.another().evidence(candidate[tap, 0])
    assert not isinstance(evidence, str)
    offset = angles_off(replace(evidence, site=judge.values.site(tap, 0)))  # type: ignore[arg-type]
    assert offset is not None
    name, inv_freq, ulps = offset
    assert name == "encoder.inv_freq"
    expected = inv_freq * 2.0**-20 / np.spacing(inv_freq.astype(np.float32))
    # slower pairs turn by less than a rounding of what is recorded for each ulp
    assert ulps[:2] == pytest.approx(expected[:2], abs=0.6)


def test_a_red_run_whose_ops_are_right_is_told_how_far_its_angles_are_off(exact_angles: Recording) -> None:
    run = pb.Run.FromString(exact_angles.run.SerializeToString())
    run.golden_tables = True
    golden, candidate = golden_of("long/position_4096"), replace(exact_angles, run=run)
    diagnosis = diagnose(golden, candidate, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    assert diagnosis.verdicts.exit_code == 1 and not diagnosis.faults
    assert diagnosis.angles is not None and diagnosis.angles.position >= 4096
    # half an ulp of a float32 angle: what the golden's product is rounded by
    assert 1e-6 < diagnosis.angles.radians < 2.5e-4 and abs(diagnosis.angles.ulps) < 1
    assert "golden_tables" in str(diagnosis.angles) and "does not rotate by the golden's" in str(diagnosis.angles)


@pytest.mark.parametrize("shown", [True, False], ids=["cos and sin", "a fused rotation"])
def test_angles_are_measured_in_ulp_of_inv_freq(shown: bool, tmp_path: Path) -> None:
    case = "long/position_4096"
    candidate = recorded(case, scaled(1 + 2.0**-16), tmp_path / "run.pb", shown=shown)
    golden = golden_of(case)
    angles = angles_differ(Values(candidate, weights_of(golden, GOLDEN_ROOT / "checkpoints"), golden), golden)
    assert angles is not None and angles.pair == 0
    assert angles.ulps == pytest.approx(128, rel=0.01)  # 2^-16 of 1, whose ulp is 2^-23
    assert angles.radians == pytest.approx(angles.position * 2.0**-16, rel=0.01)
    assert "compute theta" in str(angles)


def test_equal_angles_say_nothing(tmp_path: Path) -> None:
    case = "long/position_4096"
    golden = golden_of(case)
    assert angles_differ(Values(golden, weights_of(golden, GOLDEN_ROOT / "checkpoints"), golden), golden) is None
