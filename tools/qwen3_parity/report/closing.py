"""What a run of many judged tests ends with: which mistakes, at which ops, what to do; then a line a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from qwen3_golden.errors import printable
from qwen3_parity.folder.diagnose import Apart, Mistake

_PLACES = 2
_CASES = 16
"""Lines of cases, unless every one is asked for."""


def headline(mistake: Mistake, *, every: bool = False) -> str:
    """The mistake, the ops in which it was made, and what it says."""
    shown = mistake.places if every else mistake.places[:_PLACES]
    more = len(mistake.places) - len(shown)
    places = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"{mistake.name} at {places}: it {mistake.says[0]}"


def diagnosis(mistakes: Sequence[Mistake], apart: Sequence[Apart], red: int, *, every: bool = False) -> Iterator[str]:
    """Each mistake with its fix and the number of red cases that it is behind, then what no named one explains."""
    for one in mistakes:
        yield headline(one, every=every)
        could = f"; it could as well be {', '.join(one.otherwise)}" if one.otherwise else ""
        yield f"  fix: {one.fix}; behind {len(one.cases)} of {red} red cases{could}"
    for other in apart:
        yield f"{other.reason}, in {len(other.cases)} of {red} red cases"


def cases(lines: Mapping[str, str], mistakes: Sequence[Mistake], *, every: bool = False) -> Iterator[str]:
    """A line for each red case, what is known of it and which mistakes are in it; the names of the rest in one line."""
    shown = list(lines) if every or len(lines) <= _CASES else list(lines)[: _CASES - 1]
    for name in shown:
        named = [one.name for one in mistakes if name in one.cases]
        yield f"{name}: {lines[name]}" + (f"; {', '.join(named)}" if named else "")
    rest = list(lines)[len(shown) :]
    if rest:
        yield f"and {len(rest)} more red cases (-v has a line for each): {', '.join(rest)}"


def github(mistakes: Sequence[Mistake], apart: Sequence[Apart]) -> Iterator[str]:
    """GitHub's workflow commands, an error for each mistake with the op to blame."""
    for one in mistakes:
        text = f"it {one.says[0]}\nfix: {one.fix}\nat {', '.join(one.places)}\nin {', '.join(one.cases)}"
        yield _error(f"{one.name} at {', '.join(one.places[:_PLACES])}", text)
    for other in apart:
        yield _error(other.reason, f"in {', '.join(other.cases)}")


def _error(title: str, text: str) -> str:
    """`::error title=…::…`, escaped as GitHub reads it: `%`, line ends, and in a property `:` and `,` as well."""
    data = _escaped("\n".join(map(printable, text.split("\n"))), "%\r\n")
    name = _escaped(printable(title), "%\r\n:,")
    return f"::error title={name}::{data}"


def _escaped(text: str, characters: Iterable[str]) -> str:
    for one in characters:  # % comes first
        text = text.replace(one, f"%{ord(one):02X}")
    return text
