"""Where both recordings of a case come from: who made them, with what, in which arithmetic, of which bytes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read
from qwen3_parity.judge.verdict import Verdicts


def recordings_of(verdicts: Verdicts) -> tuple[Recording, Recording] | None:
    """The golden and the candidate of a verdict, read again; None where they are no files, or no longer there."""
    try:
        golden, candidate = (read(Path(path)) for path in (verdicts.golden, verdicts.candidate))
    except (ParityError, OSError):
        return None
    return golden, candidate


def shown_path(path: str, case: str) -> str:
    """A recording's file without what only this machine has: below the goldens, or the folder where this runs.

    Elsewhere the part that is the case's name, or the file's name alone; what is no path stays as it is.
    """
    file = Path(path)
    below = [file.relative_to(root).as_posix() for root in (GOLDEN_ROOT, Path.cwd()) if file.is_relative_to(root)]
    if not file.is_absolute():
        return path
    return next(iter(below), f"{case}.pb" if path.endswith(f"/{case}.pb") else file.name)


def file_day(path: Path) -> str:
    """The day of a recording's file in UTC, as "2026-11-26", of a copy maybe the copy's; empty where it is no file."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    except (OSError, OverflowError, ValueError):  # a file's day may be beyond any calendar
        return ""


def model_of(candidate: Recording) -> str:
    """What was run, as the recording says it: the name of its class; empty where it says none."""
    producer = candidate.provenance.producer
    return "" if producer == "foreign" else producer


def arithmetic(number: int) -> str:
    """An arithmetic's name in lower case: "f32"."""
    return pb.Arithmetic.Name(number).removeprefix("ARITHMETIC_").lower()


def backend(number: int) -> str:
    """A backend's name in lower case: "eager"."""
    return pb.Backend.Name(number).lower()


def provenance(golden: Recording, candidate: Recording) -> list[tuple[str, str, str]]:
    """Rows of what is known of both sides: what it is, the golden's, the candidate's; empty ones are left out."""
    sides = [dict(_of(recording)) for recording in (golden, candidate)]
    sides[1] |= {"day of the file": day} if (day := file_day(Path(candidate.source))) else {}
    keys = dict.fromkeys([*sides[0], *sides[1]])
    return [(key, sides[0].get(key, ""), sides[1].get(key, "")) for key in keys]


def _of(recording: Recording) -> Iterator[tuple[str, str]]:
    origin, run, case = recording.provenance, recording.run, recording.case
    yield "file", shown_path(recording.source, case.name)
    yield "made by", origin.producer
    if case.mode != pb.TOKENIZATION:
        yield "arithmetic", arithmetic(run.arithmetic)
        yield "backend", backend(run.backend)
        yield "angles", "the golden's cos and sin" if run.golden_tables else "its own"
        if run.golden_choices:
            yield "choices", "the golden's experts"
    yield from ((pair.key, pair.value) for pair in origin.versions)
    yield from ((name, text) for name, text in (("platform", origin.platform), ("kernels", origin.kernels)) if text)
    yield from ((pair.key, pair.value) for pair in origin.flags)
    if origin.threads:
        yield "threads", str(origin.threads)
    for checkpoint in case.checkpoint:
        yield f"checkpoint of the {checkpoint.role}", f"{checkpoint.name} {checkpoint.sha256.hex()}".strip()
    if recording.digest:
        yield "digest", recording.digest.hex()
