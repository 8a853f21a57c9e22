"""Wrong greedy searches: where rows end, and which of equals is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.ops.argmax import choices, greedy_ids, search_of
from qwen3_spec.site import Result, Site

ENDS = "each of eos_token_id ends a row; what stands behind its end is pad_token_id"


def _ended_by(ignored: frozenset[int]) -> Callable[[Site], Result | None]:
    """Greedy, blind to some of the ends: behind them nothing is known, and what was recorded counts as right."""

    def compute(site: Site) -> Result | None:
        actual = site.values.recorded(site.place.name, site.step)
        if site.case.generation.strategy != "greedy" or actual is None:
            return None
        logits, forced = choices(site)
        search = search_of(site.case.generation, site.case.max_new_tokens)
        expected = greedy_ids(logits, forced, search)
        blind = greedy_ids(
            logits, forced, replace(search, eos=tuple(token for token in search.eos if token not in ignored))
        )
        if actual.shape != expected.shape:
            return None
        runs_on = np.isnan(blind) & ~np.isnan(expected)
        tails = [actual[row][runs_on[row]] for row in np.nonzero(runs_on.any(axis=1))[0]]
        if any((tail == search.pad).all() for tail in tails) or not (tails or (blind != expected).any()):
            return None
        return np.where(runs_on, actual, np.where(np.isnan(blind), expected, blind)), None

    return compute


def _not_padded(site: Site) -> Result | None:
    """Behind the end of every row that ends something else than padding stands."""
    actual = site.values.recorded(site.place.name, site.step)
    if site.case.generation.strategy != "greedy" or actual is None:
        return None
    generation = site.case.generation
    logits, forced = choices(site)
    expected = greedy_ids(logits, forced, search_of(generation, site.case.max_new_tokens))
    ends = np.isin(expected, list(generation.eos_token_id))
    behind = np.cumsum(ends, axis=1) - ends > 0
    if actual.shape != expected.shape or not (actual[behind] != generation.pad_token_id).any():
        return None
    return np.where(behind, actual, expected), None


def _end_padded(site: Site) -> Result | None:
    """What ends a row is masked together with what stands behind it."""
    if site.case.generation.strategy != "greedy":
        return None
    generation = site.case.generation
    logits, forced = choices(site)
    expected = greedy_ids(logits, forced, search_of(generation, site.case.max_new_tokens))
    return np.where(np.isin(expected, list(generation.eos_token_id)), generation.pad_token_id, expected), None


def _last_maximum(site: Site) -> Result | None:
    if site.case.generation.strategy != "greedy":
        return None
    logits, forced = choices(site)
    search = search_of(site.case.generation, site.case.max_new_tokens)
    last = logits[0].shape[1] - 1  # ids counted from the table's other end
    mirrored = replace(search, eos=tuple(last - token for token in search.eos), pad=last - search.pad)
    expected = greedy_ids(logits, forced, search)
    last_ids = last - greedy_ids([step_logits[:, ::-1] for step_logits in logits], last - forced, mirrored)
    if not (np.isfinite(last_ids) & np.isfinite(expected) & (last_ids != expected)).any():
        return None
    actual = site.values.recorded(site.place.name, site.step)
    # Behind another token than the one that was fed nothing is known, and what was recorded counts as right.
    behind = expected if actual is None or actual.shape != expected.shape else actual
    return np.where(np.isnan(last_ids), behind, last_ids), None


def ids(site: Site) -> Iterator[Hypothesis]:
    """Mistakes about the tokens that a search returns."""
    eos = list(site.case.generation.eos_token_id)
    for token in eos:
        rest = frozenset(eos) - {token}
        yield Hypothesis("eos.one_of_several", f"is ended by {token} alone", ENDS, _ended_by(rest))
    yield Hypothesis("eos.ignored", "is ended by nothing", ENDS, _ended_by(frozenset(eos)), PLAIN + 1)
    yield Hypothesis("eos.not_padded", "goes on behind the end of its rows", ENDS, _not_padded, RARE)
    yield Hypothesis("eos.padded", "has padding where the end of a row belongs", ENDS, _end_padded)
    yield Hypothesis("greedy.last_maximum", "takes the last of equals", "take the first", _last_maximum, PLAIN + 1)


MISTAKES: Mapping[str, Mistakes] = {"argmax": Mistakes((ids,))}
