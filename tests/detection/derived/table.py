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


def answers(found: Iterable[Outcome]) -> frozenset[str]:
    """The first answers to one kind of mistake."""
    return frozenset(one.first if one.caught else MISSED if one.shown else NOTHING for one in found)


def lines(results: Mapping[Kind, Iterable[Outcome]]) -> str:
    """`outcomes.txt` of these results."""
    rows = {kind: answers(found) for kind, found in results.items()}
    return _HEAD + "".join(
        f"{op} {name} {' '.join(sorted(some))}\n" for (op, name), some in sorted(rows.items()) if some
    )


def committed() -> dict[Kind, frozenset[str]]:
    """The answers by op and name, as they are committed."""
    rows = (line.split() for line in OUTCOMES.read_text(encoding="ascii").splitlines() if not line.startswith("#"))
    return {(op, name): frozenset(some) for op, name, *some in rows}


def key(kind: Kind, answer: str) -> str:
    """An answer that is another name, as reasons.txt has it: "name -> answer", or "op/name" that changes nothing."""
    op, name = kind
    return f"{op}/{name}" if answer == NOTHING else f"{name} -> {answer}"


def why() -> dict[str, str]:
    """The sentence of every key of reasons.txt."""
    return {one: reason.why for one, reason in reasons(REASONS, KINDS).items()}


def without_reason(rows: Mapping[Kind, frozenset[str]]) -> list[str]:
    """The answers of other names, and the mistakes that change nothing, of which nobody has said why."""
    known = why()
    wanted = {key(kind, one) for kind, some in rows.items() for one in some if one != kind[1]}
    return sorted(wanted - set(known))
