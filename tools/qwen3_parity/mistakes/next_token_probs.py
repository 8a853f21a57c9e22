"""Wrong filters of a distribution: another rule, another order, another history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.ops import next_token_probs as spec
from qwen3_spec.ops.next_token_probs import Sampling, history, sampling_of
from qwen3_spec.site import Result, Site

Filter = Callable[[Array], Array]
ORDER = ("repetition_penalty", "temperature", "top_k", "top_p", "min_p")
FIX = "repetition penalty, temperature, top-k, top-p, min-p, in this order, each on what the one before it left"
_OFF = Sampling()


def filters(sampling: Sampling, occurred: Array) -> dict[str, Filter]:
    """Each filter that is on, as a function of logits, in the right order."""
    every: dict[str, Filter] = {
        "repetition_penalty": lambda x: spec.penalised(x, occurred, sampling.repetition_penalty),
        "temperature": lambda x: x / sampling.temperature,
        "top_k": lambda x: spec.top_k(x, sampling.top_k),
        "top_p": lambda x: spec.top_p(x, sampling.top_p),
        "min_p": lambda x: spec.min_p(x, sampling.min_p),
    }
    return {name: every[name] for name in ORDER if getattr(sampling, name) != getattr(_OFF, name)}


def _through(chain: Sequence[Filter], logits: Array) -> Array:
    for apply in chain:
        logits = apply(logits)
    return spec.softmax(logits)


def _descending(logits: Array, rule: Callable[[Array], Array]) -> Array:
    """Logits of which `rule(probabilities, largest first)` says what stays; the largest always does."""
    order = np.argsort(-logits, axis=-1, kind="stable")
    probs = spec.softmax(np.take_along_axis(logits, order, axis=-1))
    stays = rule(probs)
    stays[..., 0] = True
    mask = np.zeros(logits.shape, bool)
    np.put_along_axis(mask, order, stays, axis=-1)
    return np.where(mask, logits, -np.inf)


def _exactly_k(logits: Array, k: int, *, last: bool = False) -> Array:
    """The k largest and no more; of equals the first ones, or the `last`."""
    order = logits.shape[-1] - 1 - np.argsort(-logits[:, ::-1], axis=-1, kind="stable") if last else None
    order = np.argsort(-logits, axis=-1, kind="stable") if order is None else order
    mask = np.zeros(logits.shape, bool)
    np.put_along_axis(mask, order[:, :k], True, axis=-1)
    return np.where(mask, logits, -np.inf)


def _counted(site: Site) -> Array:
    """How often each row has had each token, `[batch, vocab]`."""
    logits, ids, real = site.inputs
    counts = np.zeros(logits[:, -1].shape)
    rows, slots = np.nonzero(real[:, : site.stop])
    np.add.at(counts, (rows, ids[rows, slots]), 1)
    return counts


def _often(logits: Array, times: Array, penalty: float) -> Array:
    strength = penalty**times
    return np.where(logits < 0, logits * strength, logits / strength)


def _had(ids: Array, real: Array, stop: int, vocab: int) -> Array:
    return spec.seen_ids(ids[:, :stop], real[:, :stop], vocab)


def _rules(site: Site, sampling: Sampling) -> Iterator[tuple[str, str, str, Filter]]:
    """Another rule for one filter: which, the end of the hypothesis's name, what it does, the rule."""
    logits, ids, real = site.inputs
    vocab = logits.shape[-1]
    penalty, k, p, least = sampling.repetition_penalty, sampling.top_k, sampling.top_p, sampling.min_p
    prompt, stop = site.case.generation.prompt_length, site.stop
    occurred = history(site, ids, real)
    slots = np.arange(real.shape[1])
    late, early = np.where(slots >= prompt, real, False), np.where(slots < prompt, real, False)
    scopes = {
        "prompt_left_out": ("leaves the prompt out", history(site, ids, late)),
        "generated_left_out": ("counts the prompt alone", history(site, ids, early)),
        "padding_counted": ("counts padding", history(site, ids, np.ones_like(real))),
        "last_left_out": ("leaves the last token out", _had(ids, real, stop - 1, vocab)),
        "last_alone": ("is for the last token alone", history(site, ids, np.where(slots == stop - 1, real, False))),
        "everything": ("is for every token", np.ones_like(occurred)),
    }  # fmt: skip
    divided = lambda x: np.where(occurred, x / penalty, x)  # noqa: E731
    yield "repetition_penalty", "negative_divided", "divides negative logits too, which raises them", divided
    yield (
        "repetition_penalty",
        "multiplied",
        "multiplies where it should divide",
        partial(spec.penalised, previous=occurred, penalty=1 / penalty),
    )
    twice = partial(spec.penalised, previous=occurred, penalty=penalty**2)
    yield "repetition_penalty", "squared", "is applied twice, squared", twice
    yield "repetition_penalty", "subtracted", "is subtracted", lambda x: np.where(occurred, x - penalty, x)
    counts = _counted(site)
    yield "repetition_penalty", "repeated", "is applied once for each time", lambda x: _often(x, counts, penalty)
    for name, (says, others) in scopes.items():
        yield "repetition_penalty", name, says, partial(spec.penalised, previous=others, penalty=penalty)
    yield "temperature", "multiplied", "multiplies the logits", lambda x: x * sampling.temperature
    yield "temperature", "squared", "is applied twice", lambda x: x / sampling.temperature**2
    yield "top_k", "ties_cut", "keeps k and no more, of equals the first", lambda x: _exactly_k(x, k)
    yield "top_k", "ties_cut", "keeps k and no more, of equals the last", lambda x: _exactly_k(x, k, last=True)
    for more in (1, -1):
        yield "top_k", "off_by_one", f"keeps k {more:+}", lambda x, more=more: spec.top_k(x, k + more)  # type: ignore[misc]
    yield (
        "top_p",
        "crossing_left_out",
        "leaves out the token that crosses p",
        lambda x: _descending(x, lambda q: np.cumsum(q, axis=-1) <= p),
    )
    yield (
        "top_p",
        "one_too_many",
        "keeps one more than it needs",
        lambda x: _descending(
            x, lambda q: np.pad(np.cumsum(q, axis=-1) < p, ((0, 0), (2, 0)), constant_values=True)[:, :-2]
        ),
    )
    yield "top_p", "each", "keeps what has a probability of p by itself", lambda x: _descending(x, lambda q: q >= p)
    yield "top_p", "complement", "keeps a sum of 1 - p", lambda x: spec.top_p(x, 1 - p)
    yield "top_p", "argmax", "keeps the largest one alone", lambda x: spec.top_p(x, 0.0)
    yield (
        "min_p",
        "of_one",
        "is relative to 1, not to the largest probability",
        lambda x: _descending(x, lambda q: q >= least),
    )
    yield (
        "min_p",
        "of_logit",
        "is relative to the largest logit",
        lambda x: np.where(x < least * x.max(axis=-1, keepdims=True), -np.inf, x),
    )
    yield (
        "min_p",
        "of_logit",
        "is relative to the largest logit, and what it removes gets the logit 0",
        lambda x: np.where(x < least * x.max(axis=-1, keepdims=True), 0, x),
    )


def _result(site: Site, compute: Callable[[], Array]) -> Result:
    logits, ids, real = site.inputs
    y = compute()
    unit = spec.unit(y, logits[:, -1], history(site, ids, real), _OFF)
    return y, np.maximum(unit, 2.0**-24 * y)


def _unnormed(chain: Sequence[Filter], logits: Array) -> Array:
    """What stays keeps its probability among all tokens."""
    return np.where(_through(chain, logits) > 0, spec.softmax(logits), 0.0)


def sampling(site: Site) -> Iterator[Hypothesis]:
    """Mistakes about the distribution that a token is drawn from."""
    _, ids, real = site.inputs
    settings = sampling_of(site.case.generation)
    active = filters(settings, history(site, ids, real))

    def chained(names: Sequence[str]) -> Callable[[Site], Result]:
        def compute(site: Site) -> Result:
            x, i, r = site.inputs
            by_name = filters(settings, history(site, i, r))
            return _result(site, lambda: _through([by_name[name] for name in names], x[:, -1].astype(np.float64)))

        return compute

    for off in active:
        remaining = [name for name in active if name != off]
        yield Hypothesis(f"sampling.no_{off}", f"leaves {off} out", FIX, chained(remaining))
    for size in range(2, len(active)):
        for several in combinations(active, size):
            remaining = [name for name in active if name not in several]
            says = f"leaves {' and '.join(several)} out"
            yield Hypothesis("sampling.no_several", says, FIX, chained(remaining), PLAIN + 1)
    for off, end, says, _ in _rules(site, settings):
        if off in active:
            yield Hypothesis(f"{off}.{end}", f"{off} {says}", FIX, partial(_by_rule, says=says, off=off))
    for order in permutations(active):
        if list(order) != list(active):
            says = "applies its filters in another order: " + ", ".join(order)
            yield Hypothesis("sampling.order", says, FIX, chained(order), PLAIN + 1)
    says = "gives what it removes the logit 0: its probability is not 0"
    yield Hypothesis("sampling.removed_zero", says, FIX, _removed_zero, PLAIN + 1)
    says = "keeps the probabilities of all tokens for those that stay"
    yield Hypothesis("sampling.not_renormalised", says, FIX, _kept_probabilities, RARE)
    yield Hypothesis(
        "temperature.after_softmax", "temperature divides probabilities", FIX, _late_temperature, PLAIN + 1
    )
    yield Hypothesis("sampling.unfiltered", "is the softmax of the logits", FIX, chained(()), PLAIN + 1)


def _by_rule(site: Site, says: str, off: str) -> Result | None:
    settings = sampling_of(site.case.generation)
    logits, ids, real = site.inputs
    chain = filters(settings, history(site, ids, real))
    rule = next(rule for name, _, text, rule in _rules(site, settings) if (name, text) == (off, says))
    chain[off] = rule
    return _result(site, lambda: _through(list(chain.values()), logits[:, -1].astype(np.float64)))


def _kept_probabilities(site: Site) -> Result:
    settings = sampling_of(site.case.generation)
    logits, ids, real = site.inputs
    chain = list(filters(settings, history(site, ids, real)).values())
    return _result(site, lambda: _unnormed(chain, logits[:, -1].astype(np.float64)))


def _removed_zero(site: Site) -> Result:
    settings = sampling_of(site.case.generation)
    logits, ids, real = site.inputs
    previous, scores = history(site, ids, real), logits[:, -1].astype(np.float64)
    stays = spec.filtered(scores, previous, settings)
    return _result(site, lambda: spec.softmax(np.where(np.isfinite(stays), stays, 0.0)))


def _late_temperature(site: Site) -> Result:
    settings = sampling_of(site.case.generation)
    logits, ids, real = site.inputs
    chain = filters(replace(settings, temperature=1.0), history(site, ids, real))
    return _result(
        site,
        lambda: spec.softmax(_through(list(chain.values()), logits[:, -1].astype(np.float64)) / settings.temperature),
    )


MISTAKES: Mapping[str, Mistakes] = {
    "next_token_probs": Mistakes((sampling,)),
}
