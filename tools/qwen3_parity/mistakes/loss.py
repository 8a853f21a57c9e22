"""Wrong losses: which label stands at which logits, which labels count, and what their sum is divided by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.gradients import cut
from qwen3_parity.mistakes.hypothesis import Compute, Hypothesis, Mistakes, OfSite
from qwen3_parity.mistakes.observed import unit_of
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec.ops import OPS
from qwen3_spec.ops.loss import IGNORED_LABEL
from qwen3_spec.site import Result, Site

FIX = "mean of log-sum-exp less the label's logit over the labels that are not -100, as they stand"


def loss(site: Site) -> Iterator[Hypothesis]:
    """Mistakes of the loss, each the same for its value and for its gradient by the logits."""
    for steps, way in ((1, "once more, to the left"), (-1, "to the right: each position is to say its own token")):
        says = f"shifts the labels {way}"
        yield Hypothesis("loss.shifted", says, FIX, _relabelled(partial(shifted, steps)))
    yield Hypothesis("loss.sum", "adds the losses and does not divide", FIX, _divided(lambda _labels: 1.0))
    every = "divides by all positions, ignored labels too"
    yield Hypothesis("loss.ignored_counted", every, FIX, _divided(lambda labels: float(labels.size)))
    yield Hypothesis(
        "loss.per_row", "divides by the number of rows", FIX, _divided(lambda labels: float(len(labels))), PLAIN + 1
    )
    yield Hypothesis("loss.mean_of_rows", "takes the mean of each row's mean, not of all labels", FIX, _mean_of_rows)
    probable = "takes probabilities for logits: the softmax is run twice"
    yield Hypothesis("loss.softmax_twice", probable, FIX, _of_probabilities, PLAIN + 1)
    for token in sorted({0, int(site.case.training.padding_idx), site.config.vocab_size - 1}):
        says = f"counts ignored labels as token {token}"
        yield Hypothesis("loss.ignored_as_token", says, FIX, _relabelled(partial(learnt, token)), PLAIN + 1)


def shifted(steps: int, labels: Array) -> Array:
    """Labels one to the left (1) or to the right (-1); what comes in is ignored."""
    gap = np.full_like(labels[:, :1], IGNORED_LABEL)
    return np.concatenate((labels[:, 1:], gap) if steps > 0 else (gap, labels[:, :-1]), axis=1)


def learnt(token: int, labels: Array) -> Array:
    """Ignored labels as a token."""
    return np.where(labels == IGNORED_LABEL, token, labels)


def _relabelled(change: Callable[[Array], Array]) -> Compute:
    return OfSite(lambda site: replace(site, inputs=(site.inputs[0], change(site.inputs[1]))))


def _of_probabilities(site: Site) -> Result:
    logits, labels = site.inputs
    wide = np.asarray(logits, np.float64)
    wide = np.exp(wide - wide.max(-1, keepdims=True))
    p = wide / wide.sum(-1, keepdims=True)
    y, noise = OPS[site.place.op].truth(replace(site, inputs=(p, labels)))
    unit = unit_of((y, noise))
    if site.place.op != "loss_gradient":
        return y, unit
    return p * (y - (p * y).sum(-1, keepdims=True)), p * (unit + (p * unit).sum(-1, keepdims=True))


def _divided(by: Callable[[Array], float]) -> Compute:
    def compute(site: Site) -> Result:
        y, noise = OPS[site.place.op].truth(site)
        counted = max(1, int((site.inputs[1] != IGNORED_LABEL).sum()))
        factor = counted / by(site.inputs[1])
        return factor * y, factor * unit_of((y, noise))

    return compute


def _mean_of_rows(site: Site) -> Result | None:
    logits, labels = site.inputs
    rows = [row for row in range(len(labels)) if (labels[row] != IGNORED_LABEL).any()]
    if not rows:
        return None
    parts = [OPS[site.place.op].truth(replace(site, inputs=(logits[[row]], labels[[row]]))) for row in rows]
    if site.place.op == "loss":
        return np.asarray(np.mean([y for y, _ in parts])), np.asarray(np.mean([unit_of(part) for part in parts]))
    y, noise = np.zeros(logits.shape), np.full(logits.shape, 2.0**-126)
    for row, part in zip(rows, parts, strict=True):
        y[row], noise[row] = part[0][0] / len(rows), unit_of(part)[0] / len(rows)
    return y, noise


MISTAKES: Mapping[str, Mistakes] = {
    "loss": Mistakes((loss,)),
    "loss_gradient": Mistakes((loss, cut)),
}
