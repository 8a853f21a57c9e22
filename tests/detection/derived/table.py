"""What a run of every kind of mistake gave, as it is committed, and why a mistake is answered by another's name.

`outcomes.txt` is written by a run, a line for each op and name: what the judge answers first. `reasons.txt`, the
confusion table, is written by hand: below a sentence that says why, each answer that is another name, and each mistake
that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from detection.derived.outcome import Kind, Outcome
from detection.reasons import reasons

OUTCOMES, REASONS = (Path(__file__).with_name(name) for name in ("outcomes.txt", "reasons.txt"))
KINDS = ("look-alike", "equivalent", "unmade")
"""Another name for the same numbers; a mistake that nobody can see; one that no case of ours can make."""
NOTHING, MISSED = "nothing", "missed"
"""The answer to a mistake that changes nothing, and to one that passes all the same: of that there may be none."""
_HEAD = "# Written by `python -m detection.derived --write`: op, name, and what the judge answers first.\n"


def answers(outcomes: Iterable[Outcome]) -> frozenset[str]:
    """The first answers to one kind of mistake."""
    return frozenset(outcome.first if outcome.caught else MISSED if outcome.shown else NOTHING for outcome in outcomes)


def lines(results: Mapping[Kind, Iterable[Outcome]]) -> str:
    """`outcomes.txt` of these results."""
    rows = {kind: answers(outcomes) for kind, outcomes in results.items()}
    return _HEAD + "".join(
        f"{op} {name} {' '.join(sorted(names))}\n" for (op, name), names in sorted(rows.items()) if names
    )


def committed() -> dict[Kind, frozenset[str]]:
    """The answers by op and name, as they are committed."""
    rows = (line.split() for line in OUTCOMES.read_text(encoding="ascii").splitlines() if not line.startswith("#"))
    return {(op, name): frozenset(names) for op, name, *names in rows}


def key(kind: Kind, answer: str) -> str:
    """An answer that is another name, as reasons.txt has it: "name -> answer", or "op/name" that changes nothing."""
    op, name = kind
    return f"{op}/{name}" if answer == NOTHING else f"{name} -> {answer}"


def why() -> dict[str, str]:
    """The sentence of every key of reasons.txt."""
    return {answer: reason.why for answer, reason in reasons(REASONS, KINDS).items()}


def without_reason(rows: Mapping[Kind, frozenset[str]]) -> list[str]:
    """The answers of other names, and the mistakes that change nothing, of which nobody has said why."""
    known = why()
    needed = {key(kind, answer) for kind, names in rows.items() for answer in names if answer != kind[1]}
    return sorted(needed - set(known))
