"""Honest arithmetic on every case it applies to: a whole diagnosis has nothing to say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from detection.honest.ours import Patch, ours
from detection.honest.run import VARIATIONS, network_goldens, record_all
from detection.honest.variation import Variation
from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.recording.ours.network import EncoderDecoder

ONE = GOLDEN_ROOT / "cases" / "encdec" / "unrotated.pb"


def diagnosed(variation: Variation, paths: Sequence[Path], out: Path) -> Iterator[tuple[str, Diagnosis]]:
    """The diagnosis of a variation on each case that it applies to, by the case's name."""
    for path in record_all(variation, paths, out):
        golden = read(path)
        candidate = read(out / f"{golden.case.name}.pb", digests=True)
        yield golden.case.name, diagnose(golden, candidate, weights_of(candidate, GOLDEN_ROOT / "checkpoints"))


def alarms(diagnosis: Diagnosis) -> list[str]:
    """Everything that a diagnosis holds against a candidate, in words."""
    return [
        *map(str, diagnosis.verdicts.problems),
        *(
            f"blamed: {finding.fault.place}, {finding.fault.worst.share:.3g} × its headroom"
            for finding in diagnosis.faults
        ),
        *(f"misplaced: {finding.place}" for finding in diagnosis.misplaced),
        *(f"parameter: {finding.name} {finding.says}" for finding in diagnosis.parameters),
        *(f"flip: {flip}" for flip in diagnosis.flips if not flip.near_tie),
        *diagnosis.failures,
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*torch.jit.*", "ignore::UserWarning")
@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda variation: variation.name)
def test_an_honest_variation_raises_no_alarm_on_any_case(variation: Variation, tmp_path: Path) -> None:
    diagnoses = list(diagnosed(variation, network_goldens(), tmp_path))
    alone = [verdict for _, diagnosis in diagnoses for verdict in diagnosis.alone if not verdict.reason]
    compared = sum(diagnosis.verdicts.compared for _, diagnosis in diagnoses)
    worst = max((diagnosis.verdicts.worst.share for _, diagnosis in diagnoses if diagnosis.verdicts.worst), default=0)
    worst_own = max((verdict.share for verdict in alone), default=0)
    print(
        f"\n{variation.name}: {len(diagnoses)} cases, {compared} taps compared, worst {worst:.2g} of a budget;", end=" "
    )
    print(f"{len(alone)} judged alone, worst {worst_own:.2g} of a headroom")
    assert diagnoses and all(diagnosis.verdicts.compared for _, diagnosis in diagnoses)
    assert [f"{case}: {alarm}" for case, diagnosis in diagnoses for alarm in alarms(diagnosis)] == []


def off_by_one_part_in_1000(runner: EncoderDecoder) -> Iterable[Patch]:
    def forward(self: nn.Linear, x: torch.Tensor) -> Any:
        return nn.functional.linear(x, self.weight, self.bias) * 1.001

    return ((nn.Linear, "forward", forward),)


@pytest.mark.slow
def test_a_variation_that_is_not_honest_raises_alarms(tmp_path: Path) -> None:
    wrong = Variation("wrong", "projections a thousandth too large", ours(off_by_one_part_in_1000))
    ((_, diagnosis),) = diagnosed(wrong, [ONE], tmp_path)
    blamed = [alarm for alarm in alarms(diagnosis) if alarm.startswith("blamed: ")]
    assert blamed and len(alarms(diagnosis)) > len(blamed)


def test_an_honest_variation_raises_none(tmp_path: Path) -> None:
    sdpa = next(variation for variation in VARIATIONS if variation.name == "sdpa")
    ((case, diagnosis),) = diagnosed(sdpa, [ONE], tmp_path)
    assert case == "encdec/unrotated" and not alarms(diagnosis)
