"""What a name means: a mistake that the judge knows, or a bug that somebody reported; and the nearest of all names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

from rich.text import Text

from qwen3_golden import BUG_ID, ParityError, bugs
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.known_mistakes import Known, known_mistake, mistake_names
from qwen3_parity.judge.golden_path import case_names

_FORMS = 8
"""Forms of a mistake that are shown."""


def mistakes_named(name: str) -> Sequence[Known]:
    """The mistakes of a name, of two that are joined by + both; raises `ParityError` where one is none."""
    parts = name.split("+")
    known = [known_mistake(part, weights_of) for part in parts]
    for part, mistake in zip(parts, known, strict=True):
        if mistake is None:
            raise unknown(part)
    return [mistake for mistake in known if mistake is not None]


def describe(known: Known, *, every: bool = False) -> Text:
    """The mistake's forms, the ops that it is made in, and what to do; `every`: all forms."""
    forms = known.says if every else known.says[:_FORMS]
    lines = [known.name, *[f"made in: {', '.join(known.where)}"] * bool(known.where), *(f"  {says}" for says in forms)]
    if len(forms) < len(known.says):
        lines.append(f"  and {len(known.says) - len(forms)} more forms, with -v")
    lines.append(f"fix: {known.fix}")
    lines += [f"the numbers are those of {known.golden}"] * bool(known.golden)
    return Text("\n".join(lines))


def to_json(known: Sequence[Known]) -> dict[str, Any]:
    """Plain dicts, lists and strings."""
    return {"mistakes": [asdict(mistake) for mistake in known]}


def unknown(name: str) -> ParityError:
    """The refusal of a word that is no file, case, mistake or bug, with what is most like it."""
    near = get_close_matches(name, _like(name), n=3, cutoff=0.6)
    return ParityError(
        name,
        "there is no file, case, mistake or bug of this name",
        expected=f"did you mean {' or '.join(near)}?" if near else "a recording's file, or a name",
        got=name,
        next_step="qwen3-parity cases lists the cases; qwen3-parity show docs/bugs.md the bugs",
    )


def _like(name: str) -> Iterable[str]:
    """The names of the kind that a word seems to be."""
    if BUG_ID.fullmatch(name):
        return [row.id for row in bugs()]
    if "/" in name:
        return case_names()
    return mistake_names(weights_of) if "." in name else [*case_names(), *(row.id for row in bugs())]
