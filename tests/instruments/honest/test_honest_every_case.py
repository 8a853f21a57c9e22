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


def alarms(found: Diagnosis) -> list[str]:
    """Everything that a diagnosis holds against a candidate, in words."""
    return [
        *map(str, found.verdicts.problems),
        *(f"blamed: {one.fault.place}, {one.fault.worst.share:.3g} × its headroom" for one in found.faults),
        *(f"misplaced: {one.place}" for one in found.misplaced),
        *(f"parameter: {one.name} {one.says}" for one in found.parameters),
        *(f"flip: {one}" for one in found.flips if not one.near_tie),
        *found.failures,
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*torch.jit.*", "ignore::UserWarning")
@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda one: one.name)
def test_an_honest_variation_raises_no_alarm_on_any_case(variation: Variation, tmp_path: Path) -> None:
    found = list(diagnosed(variation, network_goldens(), tmp_path))
    own = [verdict for _, one in found for verdict in one.alone if not verdict.reason]
    compared = sum(one.verdicts.compared for _, one in found)
    worst = max((one.verdicts.worst.share for _, one in found if one.verdicts.worst), default=0)
    worst_own = max((one.share for one in own), default=0)
    print(f"\n{variation.name}: {len(found)} cases, {compared} taps compared, worst {worst:.2g} of a budget;", end=" ")
    print(f"{len(own)} judged alone, worst {worst_own:.2g} of a headroom")
    assert found and all(one.verdicts.compared for _, one in found)
    assert [f"{case}: {alarm}" for case, one in found for alarm in alarms(one)] == []


def off_by_one_part_in_1000(runner: EncoderDecoder) -> Iterable[Patch]:
    def forward(self: nn.Linear, x: torch.Tensor) -> Any:
        return nn.functional.linear(x, self.weight, self.bias) * 1.001

    return ((nn.Linear, "forward", forward),)


def test_a_variation_that_is_not_honest_raises_alarms(tmp_path: Path) -> None:
    wrong = Variation("wrong", "projections a thousandth too large", ours(off_by_one_part_in_1000))
    ((_, found),) = diagnosed(wrong, [ONE], tmp_path)
    blamed = [alarm for alarm in alarms(found) if alarm.startswith("blamed: ")]
    assert blamed and len(alarms(found)) > len(blamed)


def test_an_honest_variation_raises_none(tmp_path: Path) -> None:
    sdpa = next(one for one in VARIATIONS if one.name == "sdpa")
    ((case, found),) = diagnosed(sdpa, [ONE], tmp_path)
    assert case == "encdec/unrotated" and not alarms(found)
