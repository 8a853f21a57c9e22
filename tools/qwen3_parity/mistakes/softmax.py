"""Wrong probabilities: how the mask is applied, over what is summed, with which function, how narrow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.generic import Counts, casts, miscounted
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.narrow_sums import narrow_sums
from qwen3_parity.mistakes.observed import observe
from qwen3_parity.mistakes.ranks import PLAIN, Rank
from qwen3_parity.mistakes.softmax_fitted import fitted
from qwen3_parity.mistakes.softmax_forms import (
    MASK_FIX,
    SUM_FIX,
    Shaped,
    added,
    everything,
    halves,
    own_keys,
    parts,
    peak,
    soft,
    softmax_hypothesis,
    times,
    unit_of,
)
from qwen3_parity.mistakes.softmax_masks import other_mask
from qwen3_parity.mistakes.split_keys import RESCALED, by_blocks
from qwen3_spec.site import Result, Site


def _after(s: Array, visible: Array, _: Site) -> tuple[Array, Array]:
    return np.where(visible, soft(s, everything(s)), 0.0), visible


def _zeroed(s: Array, visible: Array, _: Site) -> tuple[Array, Array]:
    """Hidden scores are multiplied by 0, which a softmax does not hide."""
    return soft(np.where(visible, s, 0.0), everything(s)), everything(s)


def _over(axis: int) -> Shaped:
    """The sum over another axis."""

    def shaped(s: Array, visible: Array, _: Site) -> tuple[Array, Array]:
        y = np.moveaxis(soft(np.moveaxis(s, axis, -1), np.moveaxis(visible, axis, -1)), -1, axis)
        return y, visible

    return shaped


def _half_unmasked(memory: bool) -> Shaped:
    def shaped(s: Array, visible: Array, site: Site) -> tuple[Array, Array] | None:
        own_length = own_keys(site, s)
        if own_length >= s.shape[-1]:
            return None
        visible = visible.copy()
        visible[..., slice(own_length, None) if memory else slice(own_length)] = True
        return soft(s, visible), visible

    return shaped


def _half_added(shown: float, hidden: float, memory: bool) -> Shaped:
    """The mask of one half is added as numbers, the other half's hides."""

    def shaped(s: Array, visible: Array, site: Site) -> tuple[Array, Array] | None:
        own_length = own_keys(site, s)
        if own_length >= s.shape[-1]:
            return None
        half = slice(own_length, None) if memory else slice(own_length)
        s, widened = s.copy(), visible.copy()
        s[..., half] += np.where(visible[..., half], shown, hidden)
        widened[..., half] = True
        return soft(s, widened), widened

    return shaped


def _half_hidden(memory: bool) -> Shaped:
    def shaped(s: Array, visible: Array, site: Site) -> tuple[Array, Array] | None:
        own_length = own_keys(site, s)
        if own_length >= s.shape[-1]:
            return None
        left = visible.copy()
        left[..., slice(own_length, None) if memory else slice(own_length)] = False
        return soft(s, left), visible

    return shaped


def _of_each(function: Callable[[Array], Array]) -> Shaped:
    return lambda s, visible, _: (np.where(visible, function(s), 0.0), visible)


def _mask_rows(of: Callable[[int, int, int, int], tuple[Array, Array]]) -> Shaped:
    """Masks of other rows for some heads: `of(batch, heads, kv_heads, groups)` has the row of `[batch, heads]`."""

    def shaped(s: Array, visible: Array, site: Site) -> tuple[Array, Array] | None:
        kv = site.config.num_key_value_heads
        rows, _ = of(s.shape[0], s.shape[1], kv, s.shape[1] // kv)
        if rows.max() >= len(visible):
            return None
        mask = visible[:, 0][rows]
        return soft(s, mask), mask

    return shaped


def _grid(batch: int, heads: int) -> tuple[Array, Array]:
    return np.broadcast_to(np.arange(batch)[:, None], (batch, heads)), np.broadcast_to(np.arange(heads), (batch, heads))


def _head_major(batch: int, heads: int, kv: int, groups: int) -> tuple[Array, Array]:
    row, head = _grid(batch, heads)
    return (row * heads + head) % batch, head


def _folded_head_major(batch: int, heads: int, kv: int, groups: int) -> tuple[Array, Array]:
    row, head = _grid(batch, heads)
    return (head * batch + row) // heads, head


def _by_kv_head(batch: int, heads: int, kv: int, groups: int) -> tuple[Array, Array]:
    row, head = _grid(batch, heads)
    return head // groups, row


def _by_group_index(batch: int, heads: int, kv: int, groups: int) -> tuple[Array, Array]:
    row, head = _grid(batch, heads)
    return head % groups, row


def _blocks(size: int, accumulator: int, total: int, *, running: bool) -> Shaped:
    """An online softmax over blocks of keys that is not rescaled, or by the inverse factor."""

    def shaped(s: Array, visible: Array, _: Site) -> tuple[Array, Array] | None:
        if s.shape[-1] <= size:
            return None
        return by_blocks(np.where(visible, s, -np.inf), size, accumulator, total, running=running), visible

    return shaped


_SIZES = (2, 3, 4, 5, 6, 8, 16, 32, 64, 128)


def _tail(size: int, *, after: bool) -> Shaped:
    """The keys beyond the last whole block are lost, before the sum or after it."""

    def shaped(s: Array, visible: Array, _: Site) -> tuple[Array, Array] | None:
        whole = s.shape[-1] // size * size
        if whole in (0, s.shape[-1]):
            return None
        whole_blocks = visible & (np.arange(s.shape[-1]) < whole)
        return (np.where(whole_blocks, soft(s, visible), 0.0) if after else soft(s, whole_blocks)), visible

    return shaped


def _exp2(log2e: float) -> Shaped:
    return times(lambda _: log2e * math.log(2))


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0, -x)))


_NAMED: tuple[tuple[str, str, str, Shaped, Rank], ...] = (
    ("no_mask", "ignores the mask", MASK_FIX, lambda s, visible, _: (soft(s, everything(s)), everything(s)), PLAIN),
    ("no_mask", "ignores the mask over its own keys", MASK_FIX, _half_unmasked(False), PLAIN + 1),
    ("no_mask", "ignores the mask over the encoder's keys", MASK_FIX, _half_unmasked(True), PLAIN + 1),
    ("mask_after", "sums over every key and zeroes hidden ones afterwards", MASK_FIX, _after, PLAIN),
    ("mask_multiplied", "multiplies scores with the mask: hidden keys have score 0", MASK_FIX, _zeroed, PLAIN),
    ("boolean_added", "adds the mask as 1 and 0", MASK_FIX, added(1, 0), PLAIN),
    ("boolean_added", "adds the inverted mask as 0 and 1", MASK_FIX, added(0, 1), PLAIN),
    *(("boolean_added", f"adds the {kind} over {whose} keys", MASK_FIX,
       _half_added(shown, 1 - shown, memory), PLAIN + 1)
      for shown, kind in ((1, "mask as 1 and 0"), (0, "inverted mask as 0 and 1"))
      for memory, whose in ((False, "its own"), (True, "the encoder's"))),
    ("mask_inverted", "hides visible keys and sees hidden ones", MASK_FIX,
     lambda s, visible, _: (soft(s, ~visible), ~visible), PLAIN),
    ("weak_mask", "adds -1 to hidden scores", MASK_FIX, added(0, -1), PLAIN),
    ("weak_mask", "adds -10 to hidden scores", MASK_FIX, added(0, -10), PLAIN),
    ("weak_mask", "adds -100 to hidden scores", MASK_FIX, added(0, -100), PLAIN),
    ("axis", "sums over the queries", SUM_FIX, _over(2), PLAIN),
    ("axis", "sums over the heads", SUM_FIX, _over(1), PLAIN),
    ("axis", "sums over the batch", SUM_FIX, _over(0), PLAIN),
    ("axis", "sums over queries and keys together", SUM_FIX, lambda s, visible, _: (
        soft(s.reshape(*s.shape[:2], -1), visible.reshape(*s.shape[:2], -1)).reshape(s.shape), visible), PLAIN + 1),
    ("two_halves", "has a softmax of its own for each half", SUM_FIX, halves(lambda a, b: (a, b)), PLAIN),
    ("two_halves", "averages a softmax of each half", SUM_FIX, halves(lambda a, b: (a / 2, b / 2)), PLAIN),
    ("half_missing", "leaves the encoder's keys out", SUM_FIX, _half_hidden(True), PLAIN),
    ("half_missing", "leaves its own keys out", SUM_FIX, _half_hidden(False), PLAIN),
    ("sink", "adds 1 to the sum of exponentials (after the maximum was subtracted)", SUM_FIX,
     lambda s, visible, _: (soft(s, visible, 1.0), visible), PLAIN),
    ("sink", "adds exp(0) to the sum: a further key of score 0", SUM_FIX,
     lambda s, visible, _: (soft(s, visible, np.exp(-peak(s, visible))), visible), PLAIN),
    ("temperature", "multiplies by head_dim ** -0.5 once more", "the scores are scaled already",
     times(lambda site: site.scaling), PLAIN + 1),
    ("temperature", "divides by head_dim ** -0.5", "the scores are scaled already",
     times(lambda site: 1 / site.scaling), PLAIN + 1),
    ("temperature", "is of base 2: exp2 without the factor 1 / ln 2", SUM_FIX, times(lambda _: math.log(2)), PLAIN),
    ("temperature", "has the factor 1 / ln 2 of exp2, with exp", SUM_FIX, times(lambda _: 1 / math.log(2)), PLAIN),
    *(("temperature", f"is exp2 with {cut} for log2(e)", SUM_FIX, _exp2(cut), PLAIN) for cut in (1.44, 1.443, 1.4427)),
    ("temperature", "negates the scores", SUM_FIX, times(lambda _: -1.0), PLAIN),
    ("not_normalised", "does not divide by the sum", SUM_FIX,
     lambda s, visible, _: (np.where(visible, np.exp(s - peak(s, visible)), 0.0), visible), PLAIN),
    ("not_normalised", "is the exponential alone", SUM_FIX, _of_each(np.exp), PLAIN + 1),
    ("not_normalised", "divides by the number of keys, not by the sum", SUM_FIX,
     lambda s, visible, _: (np.where(visible, 1.0, 0.0) * np.exp(s - peak(s, visible)) / s.shape[-1], visible),
     PLAIN + 1),
    ("not_normalised", "is the scores themselves, hidden ones 0", SUM_FIX, _of_each(lambda s: s), PLAIN + 1),
    ("normalised_twice", "is a softmax of a softmax", SUM_FIX,
     lambda s, visible, _: (soft(soft(s, visible), visible), visible), PLAIN),
    ("other_function", "is a sigmoid", SUM_FIX, _of_each(_sigmoid), PLAIN),
    ("other_function", "is a sigmoid divided by its sum", SUM_FIX, lambda s, visible, _: (
        np.where(visible, _sigmoid(s), 0) / np.where(visible, _sigmoid(s), 0).sum(-1, keepdims=True).clip(1e-300),
        visible), PLAIN + 1),
    ("other_function", "is relu(scores)", SUM_FIX, _of_each(lambda s: np.maximum(s, 0)), PLAIN),
    ("other_function", "is the logarithm of a softmax", SUM_FIX,
     lambda s, visible, _: (np.where(visible, np.log(np.where(visible, soft(s, visible), 1)), 0.0), visible), PLAIN),
    ("uniform", "is uniform over the visible keys", SUM_FIX,
     lambda s, visible, _: (visible / np.maximum(visible.sum(-1, keepdims=True), 1), visible), PLAIN),
    ("other_function", "gives the largest score everything", SUM_FIX,
     lambda s, visible, _: ((np.where(visible, s, -np.inf) == peak(s, visible)) * 1.0, visible), PLAIN + 1),
    ("other_function", "squares the probabilities", SUM_FIX,
     lambda s, visible, _: (soft(s, visible) ** 2, visible), PLAIN + 1),
    ("other_row", "gives heads the masks of other rows: heads before batch", "mask[:, None]: one for all heads",
     _mask_rows(_head_major), PLAIN),
    ("other_row", "gives heads the masks of other rows: batch before heads", "mask[:, None]: one for all heads",
     _mask_rows(_folded_head_major), PLAIN),
    ("other_row", "takes the KV head for the batch row of the mask", "mask[:, None]: one for all heads",
     _mask_rows(_by_kv_head), PLAIN),
    ("other_row", "takes the head's index in its group for the batch row of the mask",
     "mask[:, None]: one for all heads", _mask_rows(_by_group_index), PLAIN + 1),
    *(("unscaled_blocks", f"goes through blocks of {n} keys: each has its own maximum", SUM_FIX,
       _blocks(n, 1, 1, running=False), PLAIN + 1 + (n < 8)) for n in _SIZES),
    *(("unscaled_blocks", f"{says} when a later block of {n} keys has a larger score", SUM_FIX,
       _blocks(n, *powers, running=True), PLAIN + 1 + (n < 8)) for n in _SIZES for powers, says in RESCALED.items()),
    *(("tail_lost", f"loses the keys beyond the last whole block of {n}{words}", SUM_FIX,
       _tail(n, after=after), PLAIN + 1)
      for n in (2, 4, 8, 16, 32, 64) for after, words in ((False, ""), (True, ", which the sum still counts"))),
)  # fmt: skip
"""The ends of names, what is wrong, what is right."""


def narrow(site: Site) -> Iterator[Hypothesis]:
    """Scores, exponentials or probabilities in narrower types."""
    return casts(site, observe(site), "softmax.half_precision", "compute the softmax in float32", multiplied=True)


def miscounted_keys(site: Site) -> Iterator[Hypothesis]:
    """Keys that are left out of the sum, or counted twice in it, and have a probability all the same."""

    def counted(counts: Counts, site: Site) -> Result:
        s, visible = parts(site)
        probs = soft(s, visible)
        total = (probs * counts(s.shape[-1])).sum(axis=-1, keepdims=True)
        nonzero = total > 1e-12  # whatever guards a division by nothing stands there
        y = probs / np.where(nonzero, total, 1)
        return y, np.where(nonzero, unit_of(y, s, visible), np.inf)

    width = site.inputs[0].shape[-1]
    return miscounted(site, observe(site), "softmax.lost_terms", width, counted, grows=site.stack == "decoder")


def summed(site: Site) -> Iterator[Hypothesis]:
    """The sum in a narrower type."""
    return narrow_sums(site, observe(site))


def shaped(site: Site) -> Iterator[Hypothesis]:
    """The mistakes of the table."""
    for name, says, fix, function, rank in _NAMED:
        yield softmax_hypothesis(f"softmax.{name}", says, fix, function, rank)


def memory_again(site: Site) -> Iterator[Hypothesis]:
    """The encoder's keys once more, or as often as there were steps: appended to a cache that has them."""
    if site.step == 0 or site.place.stack != "decoder":
        return
    for says, every_step in (("once more", 0), ("again in every step", 1)):

        def appended(s: Array, visible: Array, site: Site, every: int = every_step) -> tuple[Array, Array] | None:
            own_length = own_keys(site, s)
            if own_length >= s.shape[-1]:
                return None
            copies = np.ones(s.shape[-1])
            copies[own_length:] = 1 + site.step**every
            return soft(s + np.log(copies), visible), visible

        text = f"has the encoder's keys and values {says} in decode steps"
        fix = "the encoder's keys are appended once, in the first step"
        yield softmax_hypothesis("cache.encoder_appended_again", text, fix, appended, PLAIN + 1)


MISTAKES: Mapping[str, Mistakes] = {
    "softmax": Mistakes((shaped, narrow, miscounted_keys, summed, memory_again, fitted, other_mask)),
}
