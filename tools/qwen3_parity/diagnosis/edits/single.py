"""An edit at one place of a line alone, from a step on, or at all lines of a function that are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from qwen3_parity.diagnosis.edits.edit import Change, Edit, Free, Site, opened
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import alone, later
from qwen3_parity.diagnosis.edits.words import line_of
from qwen3_parity.mistakes.ranks import COMBINED, Kind

_THREE = 3
_BUT_FIRST = "in every step but the first"


def single(edits: Iterable[Edit | Free], region: Region) -> Iterator[Edit]:
    """Plain and rare edits of lines that run more than once, at each place alone, the last first."""
    for edit in edits:
        if isinstance(edit, Free) or edit.rank.kind > Kind.RARE or len(edit.changes) != 1:
            continue
        (site, change), *_ = edit.changes.items()
        places = region.sites.get(site, [])
        if len(places) > 1 and site.file:
            for back, value in enumerate(reversed(places), 1):
                where = "the last time that it runs" if back == 1 else f"in one of {len(places)} places"
                says = f"{edit.says}, {where} ({opened(region.module_of(value))})"
                line = edit.line and line_of(region, value)
                yield replace(edit, says=says, changes={alone(site, back): change}, line=line)


def in_later_steps(edits: Iterable[Edit], region: Region, step: int) -> Iterator[Edit]:
    """Edits from a step on, where those before it are right: parameters are one for all steps, and left out."""
    where = _BUT_FIRST if step == 1 else f"from step {step} on"
    for edit in edits:
        if all(site.file or _is_made(region, site) for site in edit.changes):
            changes = {later(site, step): change for site, change in edit.changes.items()}
            says = f"{edit.says.removesuffix(_BUT_FIRST).rstrip(', ')}, {where}"
            yield replace(edit, says=says, changes=changes)


def _is_made(region: Region, site: Site) -> bool:
    """Whether a site is of recorded values, which each step has its own of."""
    return min(region.at(site), default=0) >= len(region.network.graph.leaves)


def alike(edits: Iterable[Edit]) -> list[Edit]:
    """Edits that say the same of several lines of one function, at all of them: queries and keys are made alike.

    Of three lines at any two as well: keys and values, and not queries.
    """
    groups = dict[tuple[str, str, str, str], list[Edit]]()
    for edit in edits:
        line = None if edit.line is None else edit.line.line
        if line is not None and len(edit.changes) == 1 and all(site.file for site in edit.changes):
            groups.setdefault((edit.name, edit.says, line.file, line.function), []).append(edit)
    several = [group for group in groups.values() if len(_all(group)) > 1]
    two_of_three = [sorted(pair, key=_number) for group in several if len(group) == _THREE
                    for pair in combinations(group, 2)]  # fmt: skip
    return [
        *(_at_once(group, f"all {len(group)} lines") for group in several),
        *(_at_once(pair, f"lines {_number(pair[0])} and {_number(pair[1])}") for pair in two_of_three),
    ]


def _at_once(group: Sequence[Edit], where: str) -> Edit:
    return replace(
        group[0],
        says=f"{group[0].says}, in {where}",
        rank=max(group[0].rank, COMBINED),  # of what explains as much a line by itself is plainer
        changes=_all(group),
    )


def _number(edit: Edit) -> int:
    return 0 if edit.line is None else edit.line.line.number


def _all(group: Iterable[Edit]) -> dict[Site, Change]:
    return {site: change for edit in group for site, change in edit.changes.items()}
