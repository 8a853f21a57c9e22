"""A golden by its case's name, as people type it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording
from qwen3_parity.judge.match import refuse_weights

IN_FOLDER = "golden.pb"
"""The golden beside a checkpoint, as `capture --tiny` names it."""


def golden_path(name: str, root: Path = GOLDEN_ROOT) -> Path:
    """A golden's file from its path, its folder or its case name; raises `ParityError` with the names there are."""
    path = Path(name)
    if (path / IN_FOLDER).is_file():
        return path / IN_FOLDER
    return path if path.suffix == ".pb" or path.is_file() else _committed(name, root)


def case_names(root: Path = GOLDEN_ROOT) -> list[str]:
    """The names of the committed cases, by their files alone, none of which is read."""
    return sorted(str(p.relative_to(root / "cases").with_suffix("")) for p in (root / "cases").rglob("*.pb"))


def no_such_case(name: str, root: Path = GOLDEN_ROOT) -> ParityError:
    """The refusal of a name that no golden has, with those that are most like it."""
    near = get_close_matches(name, case_names(root), n=3, cutoff=0.5)
    return ParityError(
        name,
        "there is no golden of this name",
        expected=f"the name of a case; most like it: {', '.join(near) or 'none'}",
        got=name,
        next_step="qwen3-parity cases lists them",
    )


def _committed(name: str, root: Path) -> Path:
    path = root / "cases" / f"{name}.pb"
    if not path.is_file():
        raise no_such_case(name, root)
    return path


def golden_of(candidate: Recording) -> Path:
    """The file of the golden whose case a candidate ran; `ParityError` when it ran none."""
    refuse_weights(candidate)
    if not (GOLDEN_ROOT / "cases" / f"{candidate.case.name}.pb").is_file():
        raise ParityError(
            candidate.source,
            f"no committed golden has the case {candidate.case.name!a}, so its golden is a file of your own",
            expected="the golden's path before the candidate's",
            got="the candidate alone",
            next_step=f"give both: GOLDEN.pb {candidate.source}",
        )
    return _committed(candidate.case.name, GOLDEN_ROOT)
