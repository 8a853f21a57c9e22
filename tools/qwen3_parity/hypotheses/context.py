"""Wrong context: which KV head is weighed, and in which order the heads come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.head_maps import HeadMap, told_map, wrong_maps
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.judged_cells import real_queries, recorded
from qwen3_spec import ops
from qwen3_spec.ops import OPS
from qwen3_spec.ops.context import all_values
from qwen3_spec.site import Result, Site

_HEADS = "query head h weighs KV head h // (heads // kv_heads): repeat each KV head, do not tile them"
_ORDER = "[batch, heads, query, head_dim] is transposed to [batch, query, heads, head_dim], then reshaped"


def _scores(site: Site) -> Array:
    found = site.values.value(site.sibling("scores"), site.step)
    return np.zeros_like(site.inputs[0]) if found is None or found.shape != site.inputs[0].shape else found


def weighed(site: Site, probs: Array, values: Array) -> Result:
    """The context of other probabilities and values, `values[batch, kv_heads or heads, key, head_dim]`."""
    return ops.context.forward(probs, values), ops.context.unit(probs, values, _scores(site))


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
            rank = 1 if part != "all" else 0
            yield Hypothesis(f"context.{name}", says + where, _HEADS, _mapped(build, part), rank)
    actual, rows = recorded(site), real_queries(site)
    if actual is None or rows is None or kv_heads < 2:
        return
    cells = rows[:, :, None]

    def misfit(h: int, kv: int) -> float:
        found = ops.context.forward(site.inputs[0][:, h : h + 1], values[:, kv : kv + 1])[:, :, 0]
        return float((np.abs(found - actual[:, :, h]) * cells).sum())

    told = told_map(heads, kv_heads, misfit)
    if told is not None:
        says = f"reads KV heads {', '.join(map(str, told))} for query heads 0 to {heads - 1}"
        yield Hypothesis("context.kv_heads", says, _HEADS, _mapped(lambda h, kv: told, "all"), 2)


def _mapped(build: HeadMap, part: str) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        probs, values, own = site.inputs[0], all_values(site), own_keys(site)
        found = build(probs.shape[1], values.shape[1])
        if found is None:
            return None
        right = np.repeat(values, probs.shape[1] // values.shape[1], axis=1)
        wrong = values[:, found]
        if part == "own":
            wrong = np.concatenate([wrong[:, :, :own], right[:, :, own:]], axis=2)
        elif part == "memory":
            wrong = np.concatenate([right[:, :, :own], wrong[:, :, own:]], axis=2)
        return weighed(site, probs, wrong)

    return compute


def _laid_out(change: Callable[[Array], Array | None]) -> Callable[[Site], Result | None]:
    """The right numbers `[batch, query, heads, head_dim]` in other places."""

    def compute(site: Site) -> Result | None:
        y, unit = OPS["context"].truth(site)
        found = change(y)
        return None if found is None or unit is None else (found, change(unit))

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


_LAYOUTS: tuple[tuple[str, str, Callable[[Array], Array | None], int], ...] = (
    ("head_layout", "is reshaped without transposing heads and queries", _untransposed, 0),
    ("head_order", "comes out with the heads innermost: channel c of head h at c * heads + h", _inner, 0),
    ("batch_and_heads", "has heads and batch rows merged in the wrong order", _batch_and_heads, 1),
    ("batch_and_heads", "has batch rows and heads split in the wrong order", _heads_and_batch, 1),
    ("head_order", "has its heads in reverse order", lambda y: y[:, :, ::-1], 1),
    ("head_order", "has its heads rolled by one", lambda y: np.roll(y, 1, 2), 1),
    ("head_order", "has its heads rolled back by one", lambda y: np.roll(y, -1, 2), 1),
    ("channel_order", "has its channels in reverse order", lambda y: y[..., ::-1], 2),
    ("shifted", "has its queries in reverse order", lambda y: y[:, ::-1], 2),
    ("shifted", "has its queries rolled by one", lambda y: np.roll(y, 1, 1), 2),
)


def head_order(site: Site) -> Iterator[Hypothesis]:
    """The right numbers in another order; then the order of heads that the numbers tell."""
    for name, says, change, rank in _LAYOUTS:
        yield Hypothesis(f"context.{name}", says, _ORDER, _laid_out(change), rank)

    def groups(site: Site) -> int:
        return site.config.num_attention_heads // site.config.num_key_value_heads

    says = "has the heads of a group apart: [groups, kv_heads] in place of [kv_heads, groups]"
    yield Hypothesis("context.head_order", says, _ORDER, _groups_inner(groups), 1)
    says = "has the KV heads of [groups, kv_heads] read as [kv_heads, groups]"
    yield Hypothesis("context.head_order", says, _ORDER, _groups_inner(lambda site: site.config.num_key_value_heads), 1)
    actual, rows = recorded(site), real_queries(site)
    if actual is None or rows is None:
        return
    y, _ = OPS["context"].truth(site)
    far = [[float((np.abs(actual[:, :, a] - y[:, :, b]) * rows[..., None]).sum()) for b in range(y.shape[2])]
           for a in range(y.shape[2])]  # fmt: skip
    order = [int(np.argmin(row)) for row in far]
    if order != list(range(y.shape[2])):
        says = f"has heads {', '.join(map(str, order))} where heads 0 to {y.shape[2] - 1} belong"
        yield Hypothesis("context.head_order", says, _ORDER, _laid_out(lambda y: y[:, :, order]), 3)
