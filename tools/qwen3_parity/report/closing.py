"""What a run of many judged tests ends with: which mistakes, at which ops, what to do; then a line a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from qwen3_golden import read
from qwen3_golden.errors import printable
from qwen3_parity.diagnosis.mistake import Mistake
from qwen3_parity.judge.spoken import by_cases, has_encoder

_PLACES = 2
_CASES = 16
"""Lines of cases, unless every one is asked for."""


def in_words(goldens: Mapping[str, str], mistakes: Sequence[Mistake]) -> Sequence[Mistake]:
    """Mistakes with the names of taps as people say them in their cases; `goldens` are the files of these, by name."""
    return by_cases(mistakes, {name for name, golden in goldens.items() if has_encoder(read(golden).case)})


def headline(mistake: Mistake, *, every: bool = False) -> str:
    """The mistake, the ops in which it was made, and what it says."""
    shown = mistake.places if every else mistake.places[:_PLACES]
    more = len(mistake.places) - len(shown)
    places = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"{mistake.name} at {places}: it {mistake.says[0]}"


def diagnosis(mistakes: Sequence[Mistake], red: int, *, every: bool = False) -> Iterator[str]:
    """Each mistake with its fix and the number of red cases that it is behind, then what no named one explains."""
    for mistake in mistakes:
        if not mistake.name:
            yield f"{mistake.sentence}, in {len(mistake.cases)} of {red} red cases"
            continue
        yield headline(mistake, every=every)
        could = f"; it could as well be {', '.join(mistake.otherwise)}" if mistake.otherwise else ""
        yield f"  fix: {mistake.fix}; behind {len(mistake.cases)} of {red} red cases{could}"


def cases(lines: Mapping[str, str], mistakes: Sequence[Mistake], *, every: bool = False) -> Iterator[str]:
    """A line for each red case, what is known of it and which mistakes are in it; the names of the rest in one line."""
    shown = list(lines) if every or len(lines) <= _CASES else list(lines)[: _CASES - 1]
    for name in shown:
        named = [mistake.name for mistake in mistakes if mistake.name and name in mistake.cases]
        yield f"{name}: {lines[name]}" + (f"; {', '.join(named)}" if named else "")
    rest = list(lines)[len(shown) :]
    if rest:
        yield f"and {len(rest)} more red cases (-v has a line for each): {', '.join(rest)}"


def github(mistakes: Sequence[Mistake]) -> Iterator[str]:
    """GitHub's workflow commands, an error for each mistake with the op to blame."""
    for mistake in mistakes:
        if not mistake.name:
            yield _error(mistake.sentence, f"in {', '.join(mistake.cases)}")
            continue
        text = (
            f"it {mistake.says[0]}\nfix: {mistake.fix}\nat {', '.join(mistake.places)}\nin {', '.join(mistake.cases)}"
        )
        yield _error(f"{mistake.name} at {', '.join(mistake.places[:_PLACES])}", text)


def _error(title: str, text: str) -> str:
    """`::error title=…::…`, escaped as GitHub reads it: `%`, line ends, and in a property `:` and `,` as well."""
    data = _escaped("\n".join(map(printable, text.split("\n"))), "%\r\n")
    name = _escaped(printable(title), "%\r\n:,")
    return f"::error title={name}::{data}"


def _escaped(text: str, characters: Iterable[str]) -> str:
    for character in characters:  # % comes first
        text = text.replace(character, f"%{ord(character):02X}")
    return text
