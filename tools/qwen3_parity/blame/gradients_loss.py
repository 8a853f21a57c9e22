"""How the loss and its gradient are computed again from the recorded logits."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.site import Result, Site
from qwen3_spec import cross_entropy, units
from qwen3_spec.loss import IGNORED_LABEL, cross_entropy_gradient

ROUNDOFF, SMALLEST = units.FLOAT32_ROUNDOFF, 2.0**-126


def unit(scale: Array) -> Array:
    """A number of roundoffs as an absolute unit; below float32's smallest number zeros are as good."""
    return np.asarray(ROUNDOFF * scale + SMALLEST)


def loss(site: Site) -> Result:
    """The mean cross-entropy of the recorded logits."""
    logits, labels = site.inputs
    rows, targets = _labelled(logits, labels)
    y = cross_entropy(logits, labels)
    if not targets.size:
        return y, unit(np.zeros(()))
    largest = np.abs(rows).max(axis=-1)
    scale = np.mean(3 + 2 * largest + 2 * np.abs(rows[np.arange(targets.size), targets]))
    return y, unit(np.asarray(scale + abs(y) * np.sqrt(targets.size)))


def _labelled(logits: Array, labels: Array) -> tuple[Array, Array]:
    counts = labels != IGNORED_LABEL
    return np.asarray(logits[counts], np.float64), labels[counts]


def loss_gradient(site: Site) -> Result:
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
    return y, unit(scale)
