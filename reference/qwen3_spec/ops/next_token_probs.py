"""From logits to the next token: the filters of sampling.

Filters are applied in Hugging Face's order: repetition penalty, temperature, top-k, top-p, min-p; each sees what the
one before it left. Whether a token stays is a question of float32, in which probabilities are compared with the bounds
of top-p and min-p: at an exact sum or share float64 would answer otherwise. `argmax` has the greedy
search.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, SMALLEST_NORMAL
from qwen3_spec.site import Site
from qwen3_spec.sums import same_sign_sum


@dataclass(frozen=True)
class Sampling:
    """How a distribution is filtered. The defaults filter nothing."""

    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


def softmax(logits: Array, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Softmax over the last axis; -inf becomes exactly 0."""
    weight = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weight / arithmetic.sum(weight)[..., None])


def seen_ids(ids: Array, real: Array, vocab: int) -> Array:
    """`[batch, vocab]` bool: the tokens that a row has had, of `ids[batch, slot]` where `real` is True."""
    previous = np.zeros((len(ids), vocab), bool)
    rows, slots = np.nonzero(real)
    previous[rows, ids[rows, slots]] = True
    return previous


def penalised(logits: Array, previous: Array, penalty: float, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Keskar et al. 2019: logits of `previous` tokens are divided by the penalty if positive, else multiplied; once."""
    strength = arithmetic.dtype(penalty)
    return np.where(previous, np.where(logits < 0, logits * strength, logits / strength), logits)


def top_k(logits: Array, k: int) -> Array:
    """Fan et al. 2018: the k largest stay, and whatever equals the least of them; the rest is -inf."""
    k = min(k, logits.shape[-1])
    least = np.partition(logits, -k, axis=-1)[..., -k, None]
    return np.where(logits < least, -np.inf, logits)


def top_p(logits: Array, p: float, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Holtzman et al. 2020: the smallest set of largest ones stays whose probabilities sum to `p` or more.

    A token goes when it and all smaller ones together have no more than 1 - p, in float32; the largest always stays.
    """
    order = np.argsort(logits, axis=-1, kind="stable")
    ascending = np.take_along_axis(logits, order, axis=-1)
    below = np.cumsum(np.float32(softmax(ascending, arithmetic)), axis=-1, dtype=np.float32)
    goes = np.asarray(below <= np.float32(1 - p))
    goes[..., -1] = False
    removed = np.zeros_like(goes)
    np.put_along_axis(removed, order, goes, axis=-1)
    return np.where(removed, -np.inf, logits)


def min_p(logits: Array, p: float, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Nguyen et al. 2024: those stay whose probability is at least `p` times the largest one's, in float32."""
    probs = np.float32(softmax(logits, arithmetic))
    return np.where(probs < np.float32(p) * probs.max(axis=-1, keepdims=True), -np.inf, logits)


def filtered(logits: Array, previous: Array, sampling: Sampling, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """`logits[batch, vocab]` after every filter, -inf where a token was removed. `previous[batch, vocab]` is bool."""
    scores = penalised(arithmetic.cast(logits), previous, sampling.repetition_penalty, arithmetic)
    scores = scores / arithmetic.dtype(sampling.temperature)
    if sampling.top_k:
        scores = top_k(scores, sampling.top_k)
    if sampling.top_p < 1:
        scores = top_p(scores, sampling.top_p, arithmetic)
    return min_p(scores, sampling.min_p, arithmetic) if sampling.min_p else np.asarray(scores)


def forward(logits: Array, previous: Array, sampling: Sampling, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The distribution that the next token is drawn from, `[batch, vocab]`; removed tokens have exactly 0.

    Source: HF's `LogitsProcessorList` as `generate(do_sample=True)` makes it, then a softmax.
    """
    return softmax(filtered(logits, previous, sampling, arithmetic=arithmetic), arithmetic)


def unit(y: Array, logits: Array, previous: Array, sampling: Sampling, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`p sqrt((1 + 3 |s| + max |s|)^2 + r^2)`: a softmax's unit for the filtered logits s, penalised and divided first.

    r are the roundings of the row's sum. Removed tokens must be exactly 0: unit 0.
    """
    scores = filtered(logits, previous, sampling)
    s = np.where(np.isfinite(scores), np.abs(scores), 0)
    peak = y.max(axis=-1, keepdims=True, initial=0)
    added = same_sign_sum(np.divide(y, peak, out=np.zeros_like(y), where=peak > 0))[..., None]
    scale = y * np.hypot(1 + 3 * s + s.max(axis=-1, keepdims=True, initial=0), added)
    return np.asarray(np.where(np.isfinite(scores), roundoff * scale + SMALLEST_NORMAL, 0))


def sampling_of(generation: Any) -> Sampling:
    """The filters of a case's generation, field by field as in the schema."""
    return Sampling(
        repetition_penalty=generation.repetition_penalty,
        temperature=generation.temperature,
        top_k=generation.top_k,
        top_p=generation.top_p,
        min_p=generation.min_p,
    )


def history(site: Site, ids: Array, real: Array) -> Array:
    """The tokens that each row has had by the step, `[batch, vocab]` bool; of `ids` and `real` as given to the case."""
    vocab = site.inputs[0].shape[-1]
    return seen_ids(ids[:, : site.stop], real[:, : site.stop].astype(bool), vocab)


def _operands(site: Site) -> tuple[Array, Array, Sampling]:
    logits, ids, real = site.inputs
    return logits[:, -1], history(site, ids, real), sampling_of(site.case.generation)


def at_site(site: Site, arithmetic: Arithmetic) -> Array:
    """The distribution of a step's last logits; a row with a number that is none has none either."""
    last, previous, sampling = _operands(site)
    y = forward(last, previous, sampling, arithmetic=arithmetic)
    return np.where(np.isfinite(last).all(axis=-1, keepdims=True), y, arithmetic.dtype(np.nan))


def _unit_at_site(site: Site, y: Array) -> Array:
    return unit(y, *_operands(site))


OPS = (Op("next_token_probs", at_site, _unit_at_site),)
