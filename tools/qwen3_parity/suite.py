"""The main job: an implementation recorded on every golden and judged."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from rich.progress import track

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_parity.check import check
from qwen3_parity.implementation import factory, golden_dtype
from qwen3_parity.record import load_factory, record
from qwen3_parity.verdict import Verdicts


def goldens(only: str = "*", root: Path = GOLDEN_ROOT) -> list[Path]:
    """The committed goldens that a model can be judged on, sorted by name; raises `ParityError` when there are none."""
    paths = sorted((root / "cases").rglob("*.pb"))
    names = {path: str(path.relative_to(root / "cases").with_suffix("")) for path in paths}
    chosen = [p for p in paths if fnmatchcase(names[p], only) and read(p).case.mode != pb.PLUMBING]
    if not chosen:
        raise ParityError(
            root / "cases",
            "there is nothing to compare",
            expected=f"goldens that match {only!r}",
            got="none of " + ", ".join(names.values()),
            next_step="give another --only",
        )
    return chosen


def run(out: Path, *, only: str = "*", impl: str | None = None, backend: str = "eager") -> list[Verdicts]:
    """Record and judge every golden that matches `only`; the recordings go to `out`."""
    results = []
    for path in track(goldens(only), description="recording and judging"):
        golden = read(path)
        build = load_factory(impl) if impl else factory(backend, golden_dtype(golden))
        candidate = out / f"{golden.case.name}.pb"
        record(golden, candidate, build)
        results.append(check(path, candidate))
    return results
