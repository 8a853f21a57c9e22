"""Every kind of mistake, judged: the figures and the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from functools import cache
from multiprocessing import get_context

from detection.derived.outcome import Kind, Outcome, kinds, outcomes

_known = cache(kinds)


def chosen(only: str = "*") -> list[Kind]:
    """The kinds whose name, or op/name, matches a glob."""
    return [kind for kind in _known() if fnmatchcase(kind[1], only) or fnmatchcase("/".join(kind), only)]


def _run(kind: Kind) -> tuple[Kind, list[Outcome]]:
    return kind, list(outcomes(_known()[kind]))


def run(selected: Sequence[Kind], workers: int = 1) -> Iterator[tuple[Kind, list[Outcome]]]:
    """Each kind with its outcomes: none where it changes nothing anywhere."""
    _known()  # forks find it in memory
    if workers == 1:
        yield from map(_run, selected)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        yield from pool.map(_run, selected, chunksize=4)


def totals(every: Sequence[Outcome]) -> str:
    """How many seeds there are, and what became of them."""
    caught = [outcome for outcome in every if outcome.caught]
    return (
        f"{len(every)} derived seeds of {len({outcome.name for outcome in every})} names: {len(caught)} change a "
        f"verdict, {sum(outcome.exact for outcome in caught)} are blamed on their op alone, "
        f"{sum(outcome.named for outcome in caught)} are named, "
        f"{sum(outcome.first == outcome.name for outcome in caught)} first. "
        "The library looks for its own mistakes here: "
        "this says that it is sound, and is no rate of naming bugs."
    )
