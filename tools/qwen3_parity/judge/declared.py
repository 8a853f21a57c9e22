"""What a run says that it delivers: patterns of taps.textproto, or globs over them as in --taps."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from qwen3_golden import Recording, pattern_of, table


def known_patterns(golden: Recording) -> list[str]:
    """Every pattern that a candidate of this golden may declare, in network order: the table's and the golden's own."""
    patterns = (pattern_of(item.info.name) for item in golden)
    return list(dict.fromkeys([*(row.pattern for row in table()), *patterns]))


def patterns_of(declared: str, known: Collection[str]) -> list[str]:
    """The patterns that one entry of `run.materialised` stands for: itself, or those that it matches as a glob.

    "decoder.layers.*.output" is "decoder.layers.{layer}.output". Empty for a name that nothing has.
    """
    return [declared] if declared in known else [pattern for pattern in known if fnmatchcase(pattern, declared)]


def nearest(declared: str, known: Iterable[str]) -> str:
    """The known pattern that an unknown one most looks like, or how many there are to choose from."""
    names = list(known)
    close = get_close_matches(pattern_of(declared), names, n=1)
    return close[0] if close else f"one of the {len(names)} patterns of taps.textproto"
