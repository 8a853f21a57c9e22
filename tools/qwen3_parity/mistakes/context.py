"""Wrong context: other values, other weights, narrow numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.fused_attention import accumulator
from qwen3_parity.mistakes.generic import Counts, casts, miscounted, scaled
from qwen3_parity.mistakes.gradients import cut
from qwen3_parity.mistakes.grouped_heads import groups
from qwen3_parity.mistakes.head_maps import HeadMap, fitted_map, wrong_maps
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.merged_orders import ORDERS, Order
from qwen3_parity.mistakes.narrow_sums import narrow_sums
from qwen3_parity.mistakes.normed import normed
from qwen3_parity.mistakes.observed import likely, observe, real_queries, recorded
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.split_keys import Change, ways
from qwen3_parity.mistakes.split_products import three_products
from qwen3_parity.mistakes.strides import ORDER, READS, Read
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.ops.context import all_values
from qwen3_spec.site import Result, Site

_HEADS = "query head h weighs KV head h // (heads // kv_heads): repeat each KV head, do not tile them"
_ORDER = "[batch, heads, query, head_dim] is transposed to [batch, query, heads, head_dim], then reshaped"


def _scores(site: Site) -> Array:
    scores = site.values.value(site.sibling("scores"), site.step)
    return np.zeros_like(site.inputs[0]) if scores is None or scores.shape != site.inputs[0].shape else scores


def weighed(site: Site, probs: Array, values: Array, scores: Array | None = None) -> Result:
    """The context of other probabilities and values, `values[batch, kv_heads or heads, key, head_dim]`."""
    y = ops.context.forward(probs, values)
    if not site.values.units:
        return y, np.broadcast_to(0.0, y.shape)
    return y, ops.context.unit(probs, values, _scores(site) if scores is None else scores)


def own_keys(site: Site) -> int:
    first = site.inputs[1]
    return int(first.shape[1] if first.ndim == 3 else first.shape[2])


def head_map(site: Site) -> Iterator[Hypothesis]:
    """Other KV heads, for all keys and for one half of them; then the map that the numbers tell."""
    heads, values = site.inputs[0].shape[1], all_values(site)
    kv_heads = values.shape[1]
    parts = [("", "all"), (" among its own keys", "own"), (" among the encoder's keys", "memory")]
    for where, part in parts[: 1 if len(site.inputs) < 3 else 3]:
        for name, says, build in wrong_maps(heads, kv_heads):
            rank = PLAIN + (part != "all")
            yield Hypothesis(
                f"context.{name}", says + where, _HEADS, _mapped(build, part), rank, cause=f"repeat_kv {says}{where}"
            )
    actual, rows = recorded(site), real_queries(site)
    if actual is None or rows is None or kv_heads < 2:
        return
    cells = rows[:, :, None]

    def misfit(h: int, kv: int) -> float:
        y = ops.context.forward(site.inputs[0][:, h : h + 1], values[:, kv : kv + 1])[:, :, 0]
        return float((np.abs(y - actual[:, :, h]) * cells).sum())

    fitted = fitted_map(heads, kv_heads, misfit)
    if fitted is not None:
        says = f"reads KV heads {', '.join(map(str, fitted))} for query heads 0 to {heads - 1}"
        yield Hypothesis("context.kv_heads", says, _HEADS, _mapped(lambda h, kv: fitted, "all"), RARE)


def _mapped(build: HeadMap, part: str) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        probs, values, own_length = site.inputs[0], all_values(site), own_keys(site)
        kv_map = build(probs.shape[1], values.shape[1])
        if kv_map is None:
            return None
        expected = np.repeat(values, probs.shape[1] // values.shape[1], axis=1)
        wrong = values[:, kv_map]
        if part == "own":
            wrong = np.concatenate([wrong[:, :, :own_length], expected[:, :, own_length:]], axis=2)
        elif part == "memory":
            wrong = np.concatenate([expected[:, :, :own_length], wrong[:, :, own_length:]], axis=2)
        return weighed(site, probs, wrong)

    return compute


def _laid_out(change: Callable[[Array], Array | None]) -> Callable[[Site], Result | None]:
    """The right numbers `[batch, query, heads, head_dim]` in other places."""

    def compute(site: Site) -> Result | None:
        y, unit = OPS["context"].truth(site)
        changed = change(y)
        return None if changed is None or unit is None else (changed, change(unit))

    return compute


def _inner(y: Array) -> Array:
    """Heads innermost: channel c of head h stands at c * heads + h."""
    return np.ascontiguousarray(np.swapaxes(y, 2, 3)).reshape(y.shape)


def _untransposed(y: Array) -> Array:
    return np.ascontiguousarray(np.swapaxes(y, 1, 2)).reshape(y.shape)


def _batch_and_heads(y: Array) -> Array:
    """`[heads, batch]` read as `[batch, heads]`."""
    moved = np.ascontiguousarray(y.transpose(2, 0, 1, 3))
    return moved.reshape(y.shape[0], y.shape[2], y.shape[1], y.shape[3]).swapaxes(1, 2)


def _heads_and_batch(y: Array) -> Array:
    moved = np.ascontiguousarray(y.transpose(0, 2, 1, 3))
    return moved.reshape(y.shape[2], y.shape[0], y.shape[1], y.shape[3]).transpose(1, 2, 0, 3)


def _groups_inner(groups: Callable[[Site], int]) -> Callable[[Site], Result | None]:
    """Heads as `[groups, kv_heads]` in place of `[kv_heads, groups]`, or the reverse."""

    def compute(site: Site) -> Result | None:
        size = groups(site)

        def change(y: Array) -> Array:
            split = y.reshape(*y.shape[:2], y.shape[2] // size, size, y.shape[3])
            return np.ascontiguousarray(np.swapaxes(split, 2, 3)).reshape(y.shape)

        return _laid_out(change)(site)

    return compute


_LAYOUTS: tuple[tuple[str, str, Callable[[Array], Array | None], Rank], ...] = (
    ("head_layout", "is reshaped without transposing heads and queries", _untransposed, PLAIN),
    ("head_order", "comes out with the heads innermost: channel c of head h at c * heads + h", _inner, PLAIN),
    ("batch_and_heads", "has heads and batch rows merged in the wrong order", _batch_and_heads, PLAIN + 1),
    ("batch_and_heads", "has batch rows and heads split in the wrong order", _heads_and_batch, PLAIN + 1),
    ("head_order", "has its heads in reverse order", lambda y: y[:, :, ::-1], PLAIN + 1),
    ("head_order", "has its heads rolled by one", lambda y: np.roll(y, 1, 2), PLAIN + 1),
    ("head_order", "has its heads rolled back by one", lambda y: np.roll(y, -1, 2), PLAIN + 1),
    ("channel_order", "has its channels in reverse order", lambda y: y[..., ::-1], RARE),
    ("shifted", "has its queries in reverse order", lambda y: y[:, ::-1], RARE),
    ("shifted", "has its queries rolled by one", lambda y: np.roll(y, 1, 1), RARE),
)


def head_order(site: Site) -> Iterator[Hypothesis]:
    """The right numbers in another order; then the order of heads that the numbers tell."""
    for name, says, change, rank in _LAYOUTS:
        yield Hypothesis(f"context.{name}", says, _ORDER, _laid_out(change), rank)

    def groups(site: Site) -> int:
        return site.config.num_attention_heads // site.config.num_key_value_heads

    says = "has the heads of a group apart: [groups, kv_heads] in place of [kv_heads, groups]"
    yield Hypothesis("context.head_order", says, _ORDER, _groups_inner(groups), PLAIN + 1)
    says = "has the KV heads of [groups, kv_heads] read as [kv_heads, groups]"
    yield Hypothesis(
        "context.head_order", says, _ORDER, _groups_inner(lambda site: site.config.num_key_value_heads), PLAIN + 1
    )
    actual, rows = recorded(site), real_queries(site)
    if actual is None or rows is None:
        return
    y, _ = OPS["context"].truth(site)
    far = [[float((np.abs(actual[:, :, a] - y[:, :, b]) * rows[..., None]).sum()) for b in range(y.shape[2])]
           for a in range(y.shape[2])]  # fmt: skip
    order = [int(np.argmin(row)) for row in far]
    if order != list(range(y.shape[2])):
        says = f"has heads {', '.join(map(str, order))} where heads 0 to {y.shape[2] - 1} belong"
        yield Hypothesis("context.head_order", says, _ORDER, _laid_out(lambda y: y[:, :, order]), RARE + 1)


_VALUES = "values are neither normed nor rotated"
_WEIGHTS = "weigh the values with the probabilities as they are"


def _with_values(change: Callable[[Array, Site, bool], Array | None]) -> Callable[[Site], Result | None]:
    """Own and encoder values `[batch, kv_heads, key, head_dim]` each through `change(values, site, memory)`."""

    def compute(site: Site) -> Result | None:
        parts = [heads_first(v, site.config.head_dim) if v.ndim == 3 else v for v in site.inputs[1:]]
        changed = [change(part, site, index > 0) for index, part in enumerate(parts)]
        if any(part is None for part in changed):
            return None
        return weighed(site, site.inputs[0], np.concatenate([part for part in changed if part is not None], axis=2))

    return compute


def _tables(site: Site, *, memory: bool) -> tuple[Array, Array] | None:
    """cos and sin of every key's position, `[batch, key, head_dim]`."""
    encoder = memory or site.stack == "encoder"
    positions = site.values.recorded(f"input.{'encoder' if encoder else 'decoder'}_position_ids", 0)
    frequencies = site.values.value(f"{site.stack}.inv_freq", 0)
    if positions is None or frequencies is None:
        return None
    return ops.rope_table.forward(
        positions if encoder else positions[:, : site.stop], frequencies, site.config.attention_factor
    )


def _rotated(*, ours: bool, theirs: bool) -> Callable[[Array, Site, bool], Array | None]:
    def change(values: Array, site: Site, memory: bool) -> Array | None:
        if not (theirs if memory else ours):
            return values
        tables = _tables(site, memory=memory)
        if tables is None or tables[0].shape[1] != values.shape[2]:
            return None
        return ops.rope.forward(values, *tables)

    return change


def _normed(which: str) -> Callable[[Array, Site, bool], Array | None]:
    def change(values: Array, site: Site, memory: bool) -> Array | None:
        weight = site.checkpoint.get(f"{site.sibling(which)}.weight")
        return None if weight is None else normed(site, values, weight)[0]

    return change


def other_values(site: Site) -> Iterator[Hypothesis]:
    """Values that were rotated or normed, moved along the keys, or exchanged with the encoder's."""
    for ours, theirs, says in ((True, True, "rotates the values"), (True, False, "rotates its own values"),
                              (False, True, "rotates the encoder's values")):  # fmt: skip
        if theirs and not ours and len(site.inputs) < 3:
            continue
        compute = _with_values(_rotated(ours=ours, theirs=theirs))
        yield Hypothesis("context.value_rotated", says, _VALUES, compute, PLAIN + (ours != theirs))
    for which in ("k_norm", "q_norm"):
        yield Hypothesis(
            "context.value_normed", f"puts the values through {which}", _VALUES, _with_values(_normed(which))
        )
    for by, says in ((1, "one slot late"), (-1, "one slot early")):

        def moved(site: Site, by: int = by) -> Result:
            return weighed(site, site.inputs[0], np.roll(all_values(site), by, 2))

        yield Hypothesis("context.shifted", f"weighs the values {says}", _VALUES, moved, PLAIN + 1)

    fix = "concatenate the decoder's own values first, the encoder's second"
    for name, where, order in ORDERS:

        def joined(site: Site, order: Order = order) -> Result | None:
            if len(site.inputs) < 3:
                return None
            values, own_length = all_values(site), own_keys(site)
            return weighed(
                site, site.inputs[0], order(values[:, :, :own_length], values[:, :, own_length:], site.length)
            )

        says = f"has the encoder's values {where}"
        yield Hypothesis(f"context.{name}", says, fix, joined, cause=f"the encoder's half {where}")


def _with_probs(change: Callable[[Array, Site], Array | None]) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        changed = change(site.inputs[0], site)
        return None if changed is None else weighed(site, changed, all_values(site))

    return compute


def _half(*, memory: bool, share: bool) -> Callable[[Array, Site], Array | None]:
    def change(probs: Array, site: Site) -> Array | None:
        own_length = own_keys(site)
        if own_length >= probs.shape[-1]:
            return None
        halved = probs.copy()
        halved[..., slice(own_length, None) if memory else slice(own_length)] = 0
        total = halved.sum(-1, keepdims=True)
        return halved / np.where(total > 0, total, 1) if share else halved

    return change


def _uniform(probs: Array, site: Site) -> Array | None:
    mask = site.values.value(site.sibling("mask"), site.step)
    if mask is None or mask.shape != (probs.shape[0], *probs.shape[2:]):
        return None
    visible = mask[:, None].astype(float)
    return np.broadcast_to(visible / np.maximum(visible.sum(-1, keepdims=True), 1), probs.shape)


def _unmasked(probs: Array, site: Site) -> Array | None:
    scores = site.values.value(site.sibling("scores"), site.step)
    if scores is None or scores.shape != probs.shape:
        return None
    return ops.softmax.forward(scores, np.ones((probs.shape[0], *probs.shape[2:]), bool))


def _renormalised(probs: Array, site: Site) -> Array:
    total = probs.astype(np.float64).sum(-1, keepdims=True)
    return probs / np.where(total > 0, total, 1)


_WEIGHINGS: tuple[tuple[str, str, Callable[[Array, Site], Array | None], Rank], ...] = (
    ("half_missing", "leaves the encoder's values out", _half(memory=True, share=False), PLAIN),
    ("half_missing", "leaves its own values out", _half(memory=False, share=False), PLAIN),
    ("half_missing", "weighs its own values alone, to a sum of 1", _half(memory=True, share=True), PLAIN + 1),
    ("half_missing", "weighs the encoder's values alone, to a sum of 1", _half(memory=False, share=True), PLAIN + 1),
    ("other_weights", "divides the probabilities by their sum once more", _renormalised, PLAIN + 1),
    ("other_weights", "weighs all visible values equally", _uniform, PLAIN + 1),
    ("other_weights", "weighs hidden values too: the mask is lost", _unmasked, PLAIN + 1),
    ("other_weights", "weighs the keys in reverse order", lambda p, _: p[..., ::-1], RARE),
    ("other_weights", "weighs with the next head's probabilities", lambda p, _: np.roll(p, -1, 1), PLAIN + 1),
    ("other_weights", "weighs with the probabilities of the head before", lambda p, _: np.roll(p, 1, 1), PLAIN + 1),
    ("other_weights", "has queries and keys of the probabilities exchanged",
     lambda p, _: np.swapaxes(p, 2, 3) if p.shape[2] == p.shape[3] else None, PLAIN + 1),
    ("other_weights", "squares the probabilities", lambda p, _: p.astype(np.float64) ** 2, RARE),
    ("mean", "divides by the number of keys", lambda p, _: p / p.shape[-1], PLAIN + 1),
)  # fmt: skip


def narrow(site: Site) -> Iterator[Hypothesis]:
    """Probabilities, values or the result in narrower types."""
    yield from casts(site, observe(site), "context.half_precision", "weigh in the inputs' precision", operands=2)
    yield from three_products(site, observe(site), "context.half_precision")
    yield from accumulator(site)


def miscounted_keys(site: Site) -> Iterator[Hypothesis]:
    """Keys left out of the sums, or counted twice, though the softmax counted them once."""

    def counted(counts: Counts, site: Site) -> Result:
        return weighed(site, site.inputs[0] * counts(site.inputs[0].shape[-1]), all_values(site))

    return miscounted(
        site, observe(site), "context.lost_terms", site.inputs[0].shape[-1], counted, grows=site.stack == "decoder"
    )


def split_keys(site: Site) -> Iterator[Hypothesis]:
    """Keys in blocks or splits that are put together wrongly."""
    raw_scores = site.values.value(site.sibling("scores"), site.step)
    mask = site.values.value(site.sibling("mask"), site.step)
    shape = site.inputs[0].shape
    if raw_scores is None or mask is None or raw_scores.shape != shape or mask.shape != (shape[0], *shape[2:]):
        return
    observed = observe(site)
    for name, says, fix, change, rank in ways(shape[-1], rare=observed is not None):

        def compute(site: Site, change: Change = change) -> Result | None:
            scores = site.values.value(site.sibling("scores"), site.step)
            mask = site.values.value(site.sibling("mask"), site.step)
            probs = site.inputs[0].astype(np.float64)
            if scores is None or mask is None or scores.shape != probs.shape:
                return None
            return weighed(site, change(probs, scores, mask[:, None].astype(bool), own_keys(site)), all_values(site))

        yield from likely(site, observed, [Hypothesis(f"context.{name}", says, fix, compute, rank)])


def strides(site: Site) -> Iterator[Hypothesis]:
    """Values read in another order than they have in memory."""
    for name, says, read, rank in READS:

        def compute(site: Site, read: Read = read) -> Result | None:
            values = read(all_values(site), site.inputs[0].shape[1])
            return None if values is None else weighed(site, site.inputs[0], values)

        hypothesis = Hypothesis(f"context.{name}", f"reads values {says}", ORDER, compute, rank, cause=f"{name} {says}")
        yield from likely(site, observe(site), [hypothesis])


def summed(site: Site) -> Iterator[Hypothesis]:
    """Sums in a narrower type."""
    return narrow_sums(site, observe(site))


def other_weights(site: Site) -> Iterator[Hypothesis]:
    """Probabilities changed on the way, the result multiplied by a number."""
    for name, says, change, rank in _WEIGHINGS:
        yield Hypothesis(f"context.{name}", says, _WEIGHTS, _with_probs(change), rank)
    fix = "the context is the weighted sum, and nothing more"
    yield from scaled(site, observe(site), "context.scaled", fix)


MISTAKES: Mapping[str, Mistakes] = {
    "context": Mistakes(
        (head_map, head_order, other_values, other_weights, narrow, miscounted_keys, summed, split_keys, strides)
    ),
    "context_gradient": Mistakes((groups, cut)),
}
