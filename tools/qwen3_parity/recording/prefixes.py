"""Where a model has the modules that a golden names: at the same paths, or below another prefix on either side."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import NamedTuple

_NUMBER = re.compile(r"(^|\.)\d+(\.|$)")


class Prefixes(NamedTuple):
    """What the golden's paths begin with, and what the model's begin with in its place; each empty or with a dot."""

    golden: str
    model: str

    def path(self, path: str, there: Collection[str]) -> str | None:
        """The model's path of a golden's, None where it has no such module; "" is the model itself."""
        if f"{path}.".startswith(self.golden):
            moved = self.model + f"{path}."[len(self.golden) :]
            if (moved := moved.rstrip(".")) in there:
                return moved
        whole = self.model + path
        return whole if whole in there else path if path in there else None


def prefixes_of(golden_paths: Iterable[str], there: Collection[str]) -> Prefixes:
    """The prefixes under which most of the golden's paths are paths of the model, the shortest of several."""
    paths = [path for path in dict.fromkeys(golden_paths) if path]
    pairs = [Prefixes(golden, model) for golden in _beginnings(paths) for model in _beginnings(there)]
    pairs.sort(key=lambda pair: (len(pair.golden) + len(pair.model), pair))
    exact = set(there)

    def matches(pair: Prefixes) -> int:
        return sum(pair.path(path, exact) is not None for path in paths)

    return max(pairs, key=matches)


def _beginnings(paths: Iterable[str]) -> set[str]:
    """What paths begin with before the first number, whole parts alone, nothing among them."""
    beginnings = {""}
    for path in paths:
        number = _NUMBER.search(path)
        parts = (path[: number.start()] if number else path.rpartition(".")[0]).split(".")
        beginnings.update("".join(f"{part}." for part in parts[: count + 1]) for count in range(len(parts)) if parts[0])
    return beginnings


def nearest(paths: Iterable[str], there: Iterable[str]) -> str:
    """The model's paths that a golden's are most like, for a message."""
    known = [path for path in there if path]
    close = [similar for path in list(paths)[:8] for similar in get_close_matches(path, known, n=2, cutoff=0.4)]
    return ", ".join(list(dict.fromkeys(close))[:4]) or ", ".join(known[:4]) or "none"
