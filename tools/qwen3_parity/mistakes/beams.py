"""Wrong searches: scores of beams, where rows end, pasts that stay behind their beams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.ops.beams import (
    beam_scores_unit,
    beam_search,
    choices,
    entering,
    greedy_ids,
    log_softmax,
    scores_unit,
    search_of,
)
from qwen3_spec.site import Result, Site

MOVED = "a row's past, and its score, are those of the row that beam_idx names, before the step"
ENDS = "each of eos_token_id ends a row; what stands behind its end is pad_token_id"
SCORES = "sum log-softmax of the logits over the new tokens, divide by their number to the power of length_penalty"


def _scored(wrong: Callable[[Array, Array, Array, Array], Array]) -> Callable[[Site], Result | None]:
    """`wrong(previous, logits, ids, rows)` for the scores that enter a step; before the first one they are 0."""

    def compute(site: Site) -> Result | None:
        logits, ids, rows = entering(site)
        before = np.zeros(len(logits)) if site.before is None else site.before
        y = wrong(before, logits.astype(np.float64), ids, rows)
        return y, beam_scores_unit(y, before, logits, rows)

    return compute


def _costs(logits: Array, ids: Array, rows: Array) -> Array:
    return np.asarray(log_softmax(logits)[rows, ids])


_SCORES: tuple[tuple[str, str, Callable[[Array, Array, Array, Array], Array]], ...] = (
    ("logits", "adds logits, not log-probabilities", lambda b, x, i, r: b[r] + x[r, i]),
    ("probabilities", "adds probabilities", lambda b, x, i, r: b[r] + np.exp(_costs(x, i, r))),
    ("not_moved", "adds to the row's own score, not to that of the row it goes on from",
     lambda b, x, i, r: b + _costs(x, i, r)),
    ("own_logits", "takes the row's own logits", lambda b, x, i, r: b[r] + _costs(x, i, np.arange(len(r)))),
    ("nothing_moved", "takes its own row of everything", lambda b, x, i, r: b + _costs(x, i, np.arange(len(r)))),
    ("not_summed", "has the last token's log-probability alone", lambda b, x, i, r: _costs(x, i, r)),
    ("no_progress", "is the score before the token", lambda b, x, i, r: b[r]),
)  # fmt: skip


def running(site: Site) -> Iterator[Hypothesis]:
    """Mistakes about the scores with which beams enter a step."""
    for name, says, wrong in _SCORES:
        yield Hypothesis(f"beam_scores.{name}", says, f"{SCORES}; {MOVED}", _scored(wrong))


def _with_settings(change: Callable[[pb.Generation], None]) -> Callable[[Site], Result | None]:
    """The right search with other settings; None where they cannot be told apart or lead to unknown tokens."""

    def compute(site: Site) -> Result | None:
        assert isinstance(site.case, pb.Case)
        case = pb.Case.FromString(site.case.SerializeToString())
        change(case.generation)
        found = OPS[site.place.op].truth(replace(site, case=case))
        return found if np.isfinite(found[0]).all() else None

    return compute


def _penalty(value: float) -> Callable[[pb.Generation], None]:
    return lambda generation: setattr(generation, "length_penalty", value)


def _rescaled(site: Site, more: int) -> Result | None:
    """Scores whose hypotheses count `more` tokens than they have."""
    logits, forced, beam_idx = choices(site)
    generation = site.case.generation
    ids, scores = beam_search(logits, forced, beam_idx, search_of(generation, site.case.max_new_tokens))
    if not np.isfinite(scores).all():
        return None
    ends = np.isin(ids, list(generation.eos_token_id))
    lengths = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, ids.shape[1])
    power = generation.length_penalty
    y = scores * (lengths / np.maximum(lengths + more, 1)) ** power
    return y, scores_unit(y, logits)


def scores(site: Site) -> Iterator[Hypothesis]:
    """Mistakes about the scores of what a beam search returns, and about the order that follows from them."""
    penalty = site.case.generation.length_penalty
    for value, says in ((0.0, "is off"), (1.0, "is 1"), (-penalty, "has the other sign"), (2 * penalty, "is doubled")):
        if value != penalty:
            yield Hypothesis("length_penalty.other", f"length penalty {says}", SCORES, _with_settings(_penalty(value)))
    with_prompt = site.case.generation.prompt_length
    for more, says in ((-1, "without the last token"), (1, "with one more"), (with_prompt, "with the prompt")):
        yield Hypothesis("length_penalty.length", f"counts {says}", SCORES, partial(_counted, more=more))


def _counted(site: Site, more: int) -> Result | None:
    return None if site.place.op == "argmax" else _rescaled(site, more)


def _ended_by(ignored: frozenset[int]) -> Callable[[Site], Result | None]:
    """Greedy, blind to some of the ends: behind them nothing is known, and what was recorded counts as right."""

    def compute(site: Site) -> Result | None:
        actual = site.values.recorded(site.place.name, site.step)
        if site.case.generation.strategy != "greedy" or actual is None:
            return None
        logits, forced, _ = choices(site)
        search = search_of(site.case.generation, site.case.max_new_tokens)
        right = greedy_ids(logits, forced, search)
        blind = greedy_ids(logits, forced, replace(search, eos=tuple(one for one in search.eos if one not in ignored)))
        if actual.shape != right.shape:
            return None
        runs_on = np.isnan(blind) & ~np.isnan(right)
        tails = [actual[row][runs_on[row]] for row in np.nonzero(runs_on.any(axis=1))[0]]
        if any((tail == search.pad).all() for tail in tails) or not (tails or (blind != right).any()):
            return None
        return np.where(runs_on, actual, np.where(np.isnan(blind), right, blind)), None

    return compute


def _not_padded(site: Site) -> Result | None:
    """Behind the end of every row that ends something else than padding stands."""
    actual = site.values.recorded(site.place.name, site.step)
    if site.case.generation.strategy != "greedy" or actual is None:
        return None
    generation = site.case.generation
    logits, forced, _ = choices(site)
    right = greedy_ids(logits, forced, search_of(generation, site.case.max_new_tokens))
    ends = np.isin(right, list(generation.eos_token_id))
    behind = np.cumsum(ends, axis=1) - ends > 0
    if actual.shape != right.shape or not (actual[behind] != generation.pad_token_id).any():
        return None
    return np.where(behind, actual, right), None


def _last_maximum(site: Site) -> Result | None:
    if site.case.generation.strategy != "greedy":
        return None
    logits, forced, _ = choices(site)
    search = search_of(site.case.generation, site.case.max_new_tokens)
    last = logits[0].shape[1] - 1  # ids counted from the table's other end
    other = replace(search, eos=tuple(last - one for one in search.eos), pad=last - search.pad)
    right = greedy_ids(logits, forced, search)
    found = last - greedy_ids([one[:, ::-1] for one in logits], last - forced, other)
    if not (np.isfinite(found) & np.isfinite(right) & (found != right)).any():
        return None
    actual = site.values.recorded(site.place.name, site.step)
    # Behind another token than the one that was fed nothing is known, and what was recorded counts as right.
    return np.where(np.isnan(found), right if actual is None or actual.shape != right.shape else actual, found), None


def ids(site: Site) -> Iterator[Hypothesis]:
    """Mistakes about the tokens that a search returns."""
    eos = list(site.case.generation.eos_token_id)
    for one in eos:
        rest = frozenset(eos) - {one}
        yield Hypothesis("eos.one_of_several", f"is ended by {one} alone", ENDS, _ended_by(rest))
    yield Hypothesis("eos.ignored", "is ended by nothing", ENDS, _ended_by(frozenset(eos)), 1)
    yield Hypothesis("eos.not_padded", "goes on behind the end of its rows", ENDS, _not_padded, 2)
    yield Hypothesis("greedy.last_maximum", "takes the last of equals", "take the first", _last_maximum, 1)
    if site.case.generation.strategy == "beam":
        yield from scores(site)
        early = lambda generation: setattr(generation, "early_stopping", not generation.early_stopping)  # noqa: E731
        yield Hypothesis("beams.early_stopping", "stops at another time", ENDS, _with_settings(early), 1)


def _past(site: Site, rows: Callable[[Array], Array], *, new_too: bool = False) -> Result | None:
    """A cache whose past is that of `rows(beam_idx)` of the step before."""
    beam_idx = site.values.recorded("input.beam_idx", 0)
    held = site.values.value(site.place.name, site.step - 1) if site.step > 0 else None
    if held is None or beam_idx is None:
        return None
    at = rows(beam_idx[site.step])
    if site.place.op == "cache_once":
        return held[at], None
    new = site.inputs[0]
    new = heads_first(new, site.config.head_dim) if new.ndim == 3 else new
    if new_too:
        new = new[beam_idx[site.step]]
    return np.concatenate([held[at], new], axis=2), None


def _own(rows: Array) -> Array:
    return np.arange(len(rows))


def past(site: Site) -> Iterator[Hypothesis]:
    """Mistakes about the past that a beam goes on from."""
    if site.values.recorded("input.beam_idx", 0) is None:
        return
    beams = site.case.generation.num_beams
    orders: tuple[tuple[str, str, Callable[[Array], Array]], ...] = (
        ("not_reordered", "keeps each beam's own past", _own),
        ("reordered_inversely", "moves pasts the other way round", lambda rows: np.argsort(rows, kind="stable")),
        ("other_source", "counts beams from the first source", lambda rows: rows % beams),
        ("other_source", "has the rows of the source behind", lambda rows: np.roll(_own(rows), -beams)),
        ("other_source", "has a source's first row in each row of all", lambda rows: np.zeros_like(rows)),
    )
    for name, says, rows in orders:
        yield Hypothesis(f"beams.{name}", says, MOVED, partial(_past, rows=rows))
    again = partial(_past, rows=lambda rows: rows, new_too=True)
    yield Hypothesis("beams.reordered_late", "moves the step's own keys (values) too", MOVED, again)


MISTAKES: Mapping[str, Mistakes] = {
    "beam_scores": Mistakes((running,)),
    "sequences_scores": Mistakes((scores,)),
    "argmax": Mistakes((ids,)),
}
