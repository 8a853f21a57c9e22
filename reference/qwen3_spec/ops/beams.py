"""Greedy and beam search over logits that are given: what a search that went the recorded way would have returned.

The logits are teacher-forced: they tell what comes next only while the search itself makes the recorded choices. From
the first other choice on nothing is known: NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Site
from qwen3_spec.sums import same_sign_sum

_NEVER = -1.0e9
"""The score of what cannot be chosen, as Hugging Face has it."""


@dataclass(frozen=True)
class Search:
    """How tokens are chosen; `new` is the most of them. Any of `eos` ends a row, `pad` stands behind its end."""

    new: int
    eos: tuple[int, ...] = ()
    pad: int = 0
    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool = False
    returned: int = 1


def log_softmax(logits: Array, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`[..., vocab]`: logarithms of the softmax."""
    moved = arithmetic.cast(logits) - arithmetic.cast(logits).max(axis=-1, keepdims=True)
    return np.asarray(moved - np.log(arithmetic.sum(np.exp(moved)))[..., None])


def beam_scores(
    previous: Array | None, logits: Array, ids: Array, beam_idx: Array, *, arithmetic: Arithmetic = FLOAT64
) -> Array:
    """Running sums of log-probabilities `[rows]` of the rows that enter a step.

    `logits[rows, vocab]` and `previous[rows]` (None: none yet) are of the step before; `ids[rows]` the token that each
    row was given, `beam_idx[rows]` the row it goes on from. Source: HF `_beam_search`, `running_beam_scores`.
    """
    costs = log_softmax(logits, arithmetic)[beam_idx, ids]
    return costs if previous is None else np.asarray(arithmetic.cast(previous)[beam_idx] + costs)


def beam_scores_unit(
    y: Array, previous: Array | None, logits: Array, beam_idx: Array, *, roundoff: float = FLOAT32_ROUNDOFF
) -> Array:
    """`1 + max |logit| + |what was added to| + |y| + r`, `[rows]`; r are the roundings of the sum of exponentials."""
    magnitude = np.abs(logits[beam_idx])
    weight = np.exp(FLOAT64.cast(logits)[beam_idx] - logits[beam_idx].max(axis=-1, keepdims=True))
    before = 0 if previous is None else np.abs(previous[beam_idx])
    return np.asarray(roundoff * (1 + magnitude.max(axis=-1) + before + np.abs(y) + same_sign_sum(weight)))


def greedy_ids(logits: Sequence[Array], forced: Array, search: Search) -> Array:
    """`[batch, new]` float64, the ids of greedy search, NaN where they are not known.

    `logits[n][batch, vocab]` are those by which token n is chosen, `forced[batch, n]` the tokens that were fed behind.
    """
    batch = len(logits[0])
    out = np.full((batch, search.new), float(search.pad))
    for row in range(batch):
        for n in range(search.new):
            if n == len(logits) or not np.isfinite(logits[n][row]).all():
                out[row, n:] = np.nan
                break
            out[row, n] = best = int(logits[n][row].argmax())
            if best in search.eos:
                break
            if n < forced.shape[1] and forced[row, n] != best:
                out[row, n + 1 :] = np.nan
                break
    return out


@dataclass
class _Source:
    """The beams of one source: what runs (score, ids), what has ended, best first, and whether that can improve."""

    running: list[tuple[float, tuple[int, ...]]]
    ended: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)
    open: bool = True

    def end(self, found: list[tuple[float, tuple[int, ...]]], search: Search) -> None:
        """Take what has just ended among the best, unless nothing may be added any more."""
        if self.open and not (search.early_stopping and len(self.ended) == search.beams):
            every = sorted((*self.ended, *found), key=lambda one: -one[0])
            self.ended = every[: search.beams]

    def look(self, length: int, search: Search) -> None:
        """Whether the best running beam, at the next length, can still beat the worst that has ended."""
        if len(self.ended) == search.beams:
            best = self.running[0][0] / length**search.length_penalty
            self.open = self.open and best > self.ended[-1][0]


def _step(source: _Source, costs: Array, search: Search, length: int) -> list[tuple[float, int, int]] | None:
    """One step of one source: `costs[beams, vocab]`. The beams that go on (score, beam, id); None when none can."""
    scores = np.array([score for score, _ in source.running])[:, None] + costs
    kept = max(2, 1 + len(search.eos)) * search.beams
    order = np.argsort(-scores, axis=None, kind="stable")[:kept]
    beams, ids = np.divmod(order, scores.shape[1])
    best = [(float(scores[beam, token]), int(beam), int(token)) for beam, token in zip(beams, ids, strict=True)]
    last = length == search.new
    hits = [token in search.eos or last for _, _, token in best]
    done = [
        (score / length**search.length_penalty, (*source.running[beam][1], token))
        for (score, beam, token), hit in zip(best[: search.beams], hits, strict=False)
        if hit
    ]
    source.end(done, search)
    return None if last else [one for one, hit in zip(best, hits, strict=True) if not hit][: search.beams]


def beam_search(
    logits: Sequence[Array], ids: Array, beam_idx: Array, search: Search, *, arithmetic: Arithmetic = FLOAT64
) -> tuple[Array, Array]:
    """`[sources * returned, new]` ids and `[sources * returned]` scores, best first, as float64; NaN: not known.

    `logits[n][rows, vocab]` are those of choice n, `ids[rows, n]` and `beam_idx[n, rows]` what the rows went on with
    behind it. A source's rows stand together. Source: HF `_beam_search` (`early_stopping` True or False).
    """
    sources, width = len(logits[0]) // search.beams, search.beams
    every_id = np.full((sources * search.returned, search.new), np.nan)
    every_score = np.full(sources * search.returned, np.nan)
    for number in range(sources):
        rows = slice(number * width, (number + 1) * width)
        source = _Source([(0.0, ()), *[(_NEVER, ())] * (width - 1)])
        known = True
        for n, of_all in enumerate(logits):
            going = _step(source, log_softmax(of_all[rows], arithmetic), search, n + 1)
            if going is None:
                break
            source.running = [(score, (*source.running[beam][1], token)) for score, beam, token in going]
            source.look(n + 1, search)
            if n + 1 == len(logits):
                break
            chosen = [(beam + rows.start, token) for _, beam, token in going]
            known = chosen == list(zip(beam_idx[n][rows].tolist(), ids[rows, n].tolist(), strict=True))
            if not known:
                break
        if not known:
            continue
        for rank, (score, tokens) in enumerate(source.ended[: search.returned]):
            at = number * search.returned + rank
            every_score[at] = score
            every_id[at] = search.pad
            every_id[at, : len(tokens)] = tokens
    return every_id, every_score


def search_of(generation: Any, max_new_tokens: int) -> Search:
    """The search of a case's generation, greedy or with beams, field by field as in the schema."""
    return Search(
        new=max_new_tokens,
        eos=tuple(generation.eos_token_id),
        pad=generation.pad_token_id,
        beams=generation.num_beams,
        length_penalty=generation.length_penalty,
        early_stopping=generation.early_stopping,
        returned=generation.num_return_sequences,
    )


def choosing_steps(steps: Sequence[int], generation: Any) -> list[int]:
    """The steps by whose last logits a token was chosen: from the one that ends the prompt on."""
    return [step for step, stop in enumerate(accumulate(steps)) if stop >= generation.prompt_length]


def entering(site: Site) -> tuple[Array, Array, Array]:
    """Of beams that enter a step: the logits before it `[rows, vocab]`, the tokens and the rows they go on from."""
    logits, ids, beam_idx = site.inputs
    return logits[:, -1], ids[:, site.stop - site.case.steps[site.step]], beam_idx[site.step]


def choices(site: Site) -> tuple[list[Array], Array, Array]:
    """The logits `[rows, vocab]` of every choice, and what was fed behind: tokens `[rows, n]`, rows `[n, rows]`.

    Raises `ValueError` when some logits were not recorded.
    """
    steps, generation = list(site.case.steps), site.case.generation
    found = [site.values.value("logits", step) for step in choosing_steps(steps, generation)]
    known = [one[:, -1] for one in found if one is not None]
    ids = site.values.recorded("input.decoder_input_ids", 0)
    if ids is None or len(known) < len(found):
        raise ValueError("some logits were not recorded")
    beam_idx = site.values.recorded("input.beam_idx", 0)
    forced = ids[:, generation.prompt_length :]
    rows = np.broadcast_to(np.arange(len(ids)), (len(known), len(ids))) if beam_idx is None else beam_idx
    return known, forced, rows[len(rows) - len(known) + 1 :]


def scores_unit(y: Array, logits: list[Array]) -> Array:
    """Of the sum of a hypothesis's log-probabilities: one rounding of each, as large as the logits, and of the sum."""
    largest = max(float(np.abs(one).max(initial=0)) for one in logits)
    return np.asarray(FLOAT32_ROUNDOFF * (np.abs(y) + (2 + largest) * np.sqrt(len(logits))))


def _entering_scores(site: Site, arithmetic: Arithmetic) -> Array:
    logits, ids, rows = entering(site)
    return beam_scores(site.before, logits, ids, rows, arithmetic=arithmetic)


def _entering_unit(site: Site, y: Array) -> Array:
    logits, _, rows = entering(site)
    return beam_scores_unit(y, site.before, logits, rows)


def _returned_ids(site: Site, arithmetic: Arithmetic) -> Array:
    logits, forced, beam_idx = choices(site)
    search = search_of(site.case.generation, site.case.max_new_tokens)
    if site.case.generation.strategy != "beam":
        return greedy_ids(logits, forced, search)
    return beam_search(logits, forced, beam_idx, search, arithmetic=arithmetic)[0]


def _returned_scores(site: Site, arithmetic: Arithmetic) -> Array:
    logits, forced, beam_idx = choices(site)
    search = search_of(site.case.generation, site.case.max_new_tokens)
    return np.asarray(beam_search(logits, forced, beam_idx, search, arithmetic=arithmetic)[1], arithmetic.dtype)


def _returned_unit(site: Site, y: Array) -> Array:
    return scores_unit(y, choices(site)[0])


OPS = (
    Op("beam_scores", _entering_scores, _entering_unit),
    Op("sequences_scores", _returned_scores, _returned_unit),
    Op("argmax", _returned_ids),
)
"""Of cases that say how tokens are chosen (`case.generation`); ids that are merely generated are not computed again."""
