"""Recording the reference again: into a staging folder, compared with what is committed, accepted with a reason."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read
from qwen3_golden import manifest as manifests
from qwen3_golden.whole import change_together
from qwen3_parity.check import check, check_run
from qwen3_parity.judge.selection import EVERY, Selection

SAME, MOVED, NEW, GONE = "same", "moved", "new", "gone"
LOG = "CHANGELOG.md"
_SECONDS = 0.2
"""Between two looks at what is recorded."""
_FLOORS = 2.0
"""Floors of one run on two machines differ by less: the draws are the same, the recorded run's own error is in them."""


_REFUSED = 2
"""The exit code of the reference where a selection has no case, or a checkpoint cannot be used."""


@dataclass(frozen=True)
class Difference:
    """One case, committed against staged. `kind` is SAME, MOVED, NEW or GONE; `share` the share of a budget used.

    `equal_bytes`: not a bit differs. A case has moved when its bytes differ in the environment that recorded it, or
    when its values differ by more than half a budget elsewhere.
    """

    name: str
    kind: str
    share: float = 0.0
    equal_bytes: bool = False
    text: str = ""


def record_reference(
    staging: Path, selection: Selection = EVERY, count: Callable[[int, int], None] = lambda done, total: None
) -> None:
    """Run the reference in a clean one-thread process, which writes `staging`/cases; `ParityError` when it fails.

    `count` gets how many of how many committed cases are recorded.
    """
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = os.environ | threads | {"PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "qwen3_reference", str(staging)]
    command += [f"--only={glob}" for glob in selection.only]
    committed = _cases(GOLDEN_ROOT, EVERY)
    lacking = [name for name, path in committed.items() if not Selection(without=selection.without).takes(name, path)]
    command += [f"--exclude={glob}" for glob in (*selection.exclude, *lacking)]
    total = len(_cases(GOLDEN_ROOT, selection))
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                count(min(len(list(staging.rglob("*.pb"))), total), total)
                time.sleep(_SECONDS)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ParityError(
            "reference",
            "the reference could not be recorded",
            expected="exit code 0",
            got=process.returncode,
            next_step="read its message above; nothing was changed",
            fault="input" if process.returncode == _REFUSED else "harness bug",
        )


def _compare(name: str, old: Path, new: Path) -> Difference:
    if old.read_bytes() == new.read_bytes():
        return Difference(name, SAME, equal_bytes=True)
    committed, staged = read(old), read(new)
    by_graph = committed.case.mode == pb.GRAPH
    try:
        verdicts = check(committed, staged) if by_graph else check_run(committed, staged)
    except ParityError as error:
        if error.fault != "input":
            raise
        return Difference(name, MOVED, math.inf, text=f"another case: {error.where.rpartition(': ')[2]}")
    share = verdicts.worst.share if verdicts.worst else 0.0
    if committed.provenance == staged.provenance:
        return Difference(name, MOVED, share, text="other bytes in the same environment")
    if committed.tokenization != staged.tokenization:
        first = verdicts.problems[0].where if verdicts.problems else "tokenizer.chunks"
        return Difference(name, MOVED, math.inf, text=f"another tokenization, first {first}")
    if committed.case.mode == pb.TOKENIZATION:
        return Difference(name, SAME, text="another environment, every stage the same")
    if by_graph and _versions(committed) == _versions(staged) and committed.graph != staged.graph:
        return Difference(name, MOVED, share, text="another graph of the same versions")
    if by_graph and (tap := _other_floors(committed, staged)):
        return Difference(name, MOVED, share, text=f"another floor, first of {tap}")
    if verdicts.exit_code or share > 0.5:
        return Difference(name, MOVED, share, text="values differ by more than half a budget")
    return Difference(name, SAME, share, text="another environment, within half a budget")


def _versions(recording: Recording) -> dict[str, str]:
    return {pair.key: pair.value for pair in recording.provenance.versions}


def _other_floors(committed: Recording, staged: Recording) -> str:
    """The first tap whose floor is more than twice the other's; empty: none, they are drawn in NumPy alone."""
    for item in committed:
        again = staged.get(*item.key)
        for field in ("rms", "max", "row"):
            low, high = sorted(getattr(recorded.info.floor, field) if recorded else 0.0 for recorded in (item, again))
            if again is None or high > _FLOORS * low:
                return f"{item.info.name} (step {item.info.step})"
    return ""


def _cases(root: Path, selection: Selection) -> dict[str, Path]:
    paths = {str(path.relative_to(root / "cases").with_suffix("")): path for path in (root / "cases").rglob("*.pb")}
    # the self-test of the format is no recording of the reference
    return {n: p for n, p in sorted(paths.items()) if selection.takes(n, p) and not n.startswith("plumbing/")}


def differences(staging: Path, root: Path = GOLDEN_ROOT, selection: Selection = EVERY) -> list[Difference]:
    """Every case of either side, sorted by name."""
    old, new = _cases(root, selection), _cases(staging, selection)
    result = []
    for name in sorted(old | new):
        if name not in old:
            result.append(Difference(name, NEW))
        elif name not in new:
            result.append(Difference(name, GONE))
        else:
            result.append(_compare(name, old[name], new[name]))
    return result


def accept(staging: Path, compared: list[Difference], reason: str, root: Path = GOLDEN_ROOT) -> None:
    """Take what has changed from the staging folder, with MANIFEST and CHANGELOG.md: all of it, or nothing.

    A kill leaves the set as it was, or a change that the next command carries out (`qwen3_golden.whole`). Raises
    `ParityError` for a staged recording that cannot be read.
    """
    changed = [d for d in compared if d.kind != SAME]
    lines, instead = [f"## {reason}", ""], dict[str, Path | None]()
    for difference in changed:
        name = f"cases/{difference.name}.pb"
        staged = None if difference.kind == GONE else staging / name
        before, after = (_digest(path) for path in (root / name, staged))
        instead[name] = staged
        lines.append(f"- `{difference.name}`: {difference.kind}, {before} → {after}")
    contents: dict[str, str | bytes | None] = {n: None if p is None else p.read_bytes() for n, p in instead.items()}
    log = root / LOG
    text = log.read_text(encoding="utf-8") if log.is_file() else "# Changes of goldens\n"
    head, _, rest = text.partition("\n## ")
    contents[LOG] = head.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n" + (f"\n## {rest}" if rest else "")
    change_together(root, contents | manifests.contents(root, instead))
    manifests.verify(root)


def _digest(path: Path | None) -> str:
    return "–" if path is None or not path.is_file() else read(path).digest.hex()[:12]
