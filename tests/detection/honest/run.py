"""Running honest variations on the cases with a network, and what the judges say of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from detection.honest import (
    backends,
    batches,
    calls,
    chunks,
    classic,
    elementwise,
    equivalent,
    fusions,
    interleaved,
    key_order,
    linears,
    own_angles,
    ports,
    products,
    softmaxes,
    threads,
    training,
)
from detection.honest.variation import Variation
from detection.levels.thinned import thinned
from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read
from qwen3_parity.blame import OpVerdict, replay
from qwen3_parity.check import check_run
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.judge.conventions import conventional
from qwen3_parity.judge.selection import Selection
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours.network import golden_dtype
from qwen3_parity.recording.record import record
from qwen3_parity.recording.suite import goldens

VARIATIONS: tuple[Variation, ...] = (
    *backends.VARIATIONS,
    *threads.VARIATIONS,
    *batches.VARIATIONS,
    *chunks.VARIATIONS,
    *calls.VARIATIONS,
    *linears.VARIATIONS,
    *products.VARIATIONS,
    *softmaxes.VARIATIONS,
    *key_order.VARIATIONS,
    *elementwise.VARIATIONS,
    *own_angles.VARIATIONS,
    *interleaved.VARIATIONS,
    *equivalent.VARIATIONS,
    *fusions.VARIATIONS,
    *ports.VARIATIONS,
    *training.VARIATIONS,
    *classic.VARIATIONS,
)


@dataclass(frozen=True)
class Outcome:
    """What was found about one variation on one case, by the taps of a level; honest: no problem and nobody blamed."""

    variation: str
    case: str
    level: str
    verdicts: Verdicts
    ops: Sequence[OpVerdict]
    blamed: Sequence[str]

    @property
    def alarms(self) -> list[str]:
        """Every false alarm, in words."""
        return [*map(str, self.verdicts.problems), *(f"blamed: {name}" for name in self.blamed)]


def network_goldens(only: str = "*") -> list[Path]:
    """The committed goldens of cases with a network, sorted by name."""
    return [path for path in goldens(Selection((only,))) if read(path).case.mode not in (pb.OP, pb.PLUMBING)]


def record_all(variation: Variation, paths: Sequence[Path], out: Path) -> list[Path]:
    """Record a variation on the cases that it applies to; returns the goldens' paths, the recordings are in `out`.

    A variation with an environment is recorded in a process of its own. Raises `ParityError` when that fails.
    """
    chosen = [path for path in paths if _fits(variation, read(path))]
    if variation.environment and chosen:
        _elsewhere(variation, chosen, out)
        return chosen
    for path in chosen:
        golden = read(path)
        record(golden, out / f"{golden.case.name}.pb", variation.build(golden_dtype(golden)))
    return chosen


def _fits(variation: Variation, golden: Recording) -> bool:
    if classic.is_classic(golden) != (variation in classic.VARIATIONS):
        return False
    return variation.applies(golden) and training.differentiable(variation, golden)


def _elsewhere(variation: Variation, paths: Sequence[Path], out: Path) -> None:
    command = [sys.executable, "-m", "detection.honest.run", variation.name, str(out), *map(str, paths)]
    path = os.pathsep.join(folder for folder in sys.path if folder)  # this package is not installed
    environment = {**os.environ, "PYTHONPATH": path, **variation.environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise ParityError(
            variation.name,
            "the variation could not be recorded in its environment",
            expected="exit code 0",
            got=(done.stderr or done.stdout)[-2000:],
            next_step=f"run it by hand: {' '.join(command[1:4])} …, with {dict(variation.environment)}",
            fault="harness bug",
        )


def judge(variation: Variation, golden: Recording, candidate: Path, level: str = "all") -> Outcome:
    """Check the taps of a level of a recording against its golden, and every op or hidden group on its own inputs."""
    weights = weights_of(golden, GOLDEN_ROOT / "checkpoints")
    recording = conventional(thinned(read(candidate, digests=True), level), golden, weights).recording
    verdicts = check_run(golden, recording)
    ops = replay(recording, weights, golden)
    blamed = [f"{op.name} (step {op.step}): {op.share:.3g} × its headroom" for op in ops if not op.passed]
    return Outcome(variation.name, golden.case.name, level, verdicts, ops, blamed)


def _reaches(level: str, golden: Recording) -> bool:
    """Whether a level has a tap of a case: some have no logits."""
    return any(not tensor.info.name.startswith("input.") for tensor in thinned(golden, level))


def run(variation: Variation, paths: Sequence[Path], out: Path, levels: Sequence[str] = ("all",)) -> Iterator[Outcome]:
    """Record a variation on the cases that it applies to, and judge it on each by the taps of each level."""
    for path in record_all(variation, paths, out):
        golden = read(path)
        for level in (reached for reached in levels if _reaches(reached, golden)):
            yield judge(variation, golden, out / f"{golden.case.name}.pb", level)


def main(name: str, out: str, *paths: str) -> None:
    """Record a variation in this process, whose environment is the one it asks for."""
    variation = next(candidate for candidate in VARIATIONS if candidate.name == name)
    record_all(replace(variation, environment={}), [Path(path) for path in paths], Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
