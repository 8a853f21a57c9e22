"""The training loss and its gradient: mean cross-entropy over the labels that count, as Hugging Face's models have it.

Labels stand at the logits that predict them, `labels[batch, query]` for `logits[batch, query, vocab]`: nothing is
shifted here (HF's causal models shift `labels` themselves, and take `shift_labels` as they are).
"""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.rounding import as_unit
from qwen3_spec.site import Result, Site

IGNORED_LABEL = -100


def cross_entropy(logits: Array, labels: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """Mean of `log(sum(exp(logits))) - logits[label]` over the labels other than -100, a scalar; 0 if there are none.

    Raises `ValueError` for labels of another shape and `IndexError` for one outside the vocabulary. Source: torch
    `cross_entropy`, which gives NaN where nothing counts. HF casts logits to float32 for it: without that, a bfloat16
    sum over the vocabulary stops growing at 256 equal terms.
    """
    rows, targets = _counted(logits, labels, arithmetic)
    if not targets.size:
        return np.asarray(arithmetic.dtype(0))
    costs = np.log(arithmetic.sum(np.exp(rows))) - rows[np.arange(targets.size), targets]
    return np.asarray(arithmetic.sum(costs) / arithmetic.dtype(targets.size))


def cross_entropy_gradient(logits: Array, labels: Array, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The gradient by the logits, `(softmax(logits) - one_hot(label)) / count`, 0 where the label is -100.

    Shapes and errors as `cross_entropy`.
    """
    rows, targets = _counted(logits, labels, arithmetic)
    gradient = np.zeros(logits.shape, arithmetic.dtype)
    if targets.size:
        weight = np.exp(rows)
        probs = weight / arithmetic.sum(weight)[:, None]
        probs[np.arange(targets.size), targets] -= 1
        gradient[labels != IGNORED_LABEL] = probs / arithmetic.dtype(targets.size)
    return gradient


def _counted(logits: Array, labels: Array, arithmetic: Arithmetic) -> tuple[Array, Array]:
    """The rows of logits that have a label less their largest, `[count, vocab]`, and the labels `[count]`."""
    if labels.shape != logits.shape[:-1]:
        raise ValueError(f"labels has shape {labels.shape}, the logits have rows {logits.shape[:-1]}")
    counts = labels != IGNORED_LABEL
    targets = labels[counts]
    if targets.size and (targets.min() < 0 or targets.max() >= logits.shape[-1]):
        span = f"{targets.min()}..{targets.max()}"
        raise IndexError(f"labels span {span}, the vocabulary is 0..{logits.shape[-1] - 1}; {IGNORED_LABEL} is ignored")
    rows = arithmetic.cast(logits[counts])
    return rows - rows.max(axis=-1, keepdims=True), targets


def _labelled(logits: Array, labels: Array) -> tuple[Array, Array]:
    counts = labels != IGNORED_LABEL
    return np.asarray(logits[counts], np.float64), labels[counts]


def _loss(site: Site) -> Result:
    """The mean cross-entropy of the recorded logits."""
    logits, labels = site.inputs
    rows, targets = _labelled(logits, labels)
    y = cross_entropy(logits, labels)
    if not targets.size:
        return y, as_unit(np.zeros(()))
    largest = np.abs(rows).max(axis=-1)
    scale = np.mean(3 + 2 * largest + 2 * np.abs(rows[np.arange(targets.size), targets]))
    return y, as_unit(np.asarray(scale + abs(y) * np.sqrt(targets.size)))


def _gradient(site: Site) -> Result:
    """Its gradient by the logits."""
    logits, labels = site.inputs
    y = cross_entropy_gradient(logits, labels)
    rows, targets = _labelled(logits, labels)
    scale = np.zeros(logits.shape)
    if targets.size:
        magnitude = np.abs(rows)
        amplified = 2 + magnitude + magnitude.max(axis=-1, keepdims=True)
        probs = np.abs(y[labels != IGNORED_LABEL]) * targets.size
        scale[labels != IGNORED_LABEL] = (probs * amplified + 1e-3) / targets.size
        hits = scale[labels != IGNORED_LABEL]
        hits[np.arange(targets.size), targets] += amplified[:, 0] / targets.size
        scale[labels != IGNORED_LABEL] = hits
    return y, as_unit(scale)


def _loss_at_site(site: Site, arithmetic: Arithmetic) -> Array:
    return cross_entropy(*site.inputs, arithmetic=arithmetic)


def _gradient_at_site(site: Site, arithmetic: Arithmetic) -> Array:
    return cross_entropy_gradient(*site.inputs, arithmetic=arithmetic)


OPS = (Op("loss", _loss_at_site, both=_loss), Op("loss_gradient", _gradient_at_site, both=_gradient))
