"""How choices are computed again: filtered distributions, the scores of beams, what a search returns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.site import Result, Site
from qwen3_reference.cases.generation_settings import choosing_steps, sampling_of, search_of
from qwen3_spec.beams import beam_scores, beam_scores_unit, beam_search, greedy_ids
from qwen3_spec.sampling import next_token_probs, next_token_probs_unit, seen_ids
from qwen3_spec.units import FLOAT32_ROUNDOFF


def history(site: Site, ids: Array, real: Array) -> Array:
    """The tokens that each row has had by the step, `[batch, vocab]` bool; of `ids` and `real` as given to the case."""
    vocab = site.inputs[0].shape[-1]
    return seen_ids(ids[:, : site.stop], real[:, : site.stop].astype(bool), vocab)


def _next_token_probs(site: Site) -> Result:
    logits, ids, real = site.inputs
    last, seen, sampling = logits[:, -1], history(site, ids, real), sampling_of(site.case.generation)
    y = next_token_probs(last, seen, sampling)
    y = np.where(np.isfinite(last).all(axis=-1, keepdims=True), y, np.nan)
    return y, next_token_probs_unit(y, last, seen, sampling)


def entering(site: Site) -> tuple[Array, Array, Array]:
    """Of beams that enter a step: the logits before it `[rows, vocab]`, the tokens and the rows they go on from."""
    logits, ids, beam_idx = site.inputs
    return logits[:, -1], ids[:, site.stop - site.case.steps[site.step]], beam_idx[site.step]


def _beam_scores(site: Site) -> Result:
    logits, ids, rows = entering(site)
    y = beam_scores(site.before, logits, ids, rows)
    return y, beam_scores_unit(y, site.before, logits, rows)


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


def _searched(which: int) -> Callable[[Site], Result]:
    def searched(site: Site) -> Result:
        logits, forced, beam_idx = choices(site)
        search = search_of(site.case.generation, site.case.max_new_tokens)
        if site.case.generation.strategy != "beam":
            return greedy_ids(logits, forced, search), None
        y = beam_search(logits, forced, beam_idx, search)[which]
        return (y, None) if which == 0 else (y, scores_unit(y, logits))

    return searched


def scores_unit(y: Array, logits: list[Array]) -> Array:
    """Of the sum of a hypothesis's log-probabilities: one rounding of each, as large as the logits, and of the sum."""
    largest = max(float(np.abs(one).max(initial=0)) for one in logits)
    return np.asarray(FLOAT32_ROUNDOFF * (np.abs(y) + (2 + largest) * np.sqrt(len(logits))))


CHOICE_OPS: dict[str, Callable[[Site], Result]] = {
    "next_token_probs": _next_token_probs,
    "beam_scores": _beam_scores,
    "sequences_scores": _searched(1),
    "argmax": _searched(0),
}
"""Of cases that say how tokens are chosen (`case.generation`); ids that are merely generated are not computed again."""
