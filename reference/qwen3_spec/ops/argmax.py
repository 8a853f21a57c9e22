"""Greedy search over logits that are given: what a search that went the recorded way would have returned.

The logits are teacher-forced: they tell what comes next only while the search itself makes the recorded choices. From
the first other choice on nothing is known: NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from qwen3_spec.arithmetic import Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.site import Site


@dataclass(frozen=True)
class Search:
    """How tokens are chosen; `new` is the most of them. Any of `eos` ends a row, `pad` stands behind its end."""

    new: int
    eos: tuple[int, ...] = ()
    pad: int = 0


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


def search_of(generation: Any, max_new_tokens: int) -> Search:
    """The greedy search of a case's generation, field by field as in the schema."""
    return Search(new=max_new_tokens, eos=tuple(generation.eos_token_id), pad=generation.pad_token_id)


def choosing_steps(steps: Sequence[int], generation: Any) -> list[int]:
    """The steps by whose last logits a token was chosen: from the one that ends the prompt on."""
    return [step for step, stop in enumerate(accumulate(steps)) if stop >= generation.prompt_length]


def choices(site: Site) -> tuple[list[Array], Array]:
    """The logits `[batch, vocab]` of every choice, and the tokens `[batch, n]` that were fed behind.

    Raises `ValueError` when some logits were not recorded.
    """
    steps, generation = list(site.case.steps), site.case.generation
    logits = [site.values.value("logits", step) for step in choosing_steps(steps, generation)]
    known = [step_logits[:, -1] for step_logits in logits if step_logits is not None]
    ids = site.values.recorded("input.decoder_input_ids", 0)
    if ids is None or len(known) < len(logits):
        raise ValueError("some logits were not recorded")
    return known, ids[:, generation.prompt_length :]


def _returned_ids(site: Site, _arithmetic: Arithmetic) -> Array:
    logits, forced = choices(site)
    return greedy_ids(logits, forced, search_of(site.case.generation, site.case.max_new_tokens))


OPS = (Op("argmax", _returned_ids),)
"""Of cases that say how tokens are chosen (`case.generation`); ids that are merely generated are not computed again."""
