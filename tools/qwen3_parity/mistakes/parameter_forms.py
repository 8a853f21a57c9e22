"""The right parameters in a wrong form: axes, heads, RoPE layouts, fused matrices cut wrongly, narrow types."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.rounding import ROUNDED, bfloat16
from qwen3_spec.site import Site

Form = Callable[[Site, Array], "Array | None"]
"""A site and its weight -> the weight in another form; None where the sizes do not allow it."""


def _split(rows: int, blocks: tuple[int, ...], order: tuple[int, ...]) -> Array | None:
    """The row numbers of `[blocks…]` with axes in another order."""
    size = int(np.prod(blocks))
    if size <= 0 or rows % size:
        return None
    parts = np.arange(rows).reshape(*blocks, rows // size)
    return parts.transpose(*order, len(blocks)).reshape(-1)


def _along(axis: int, order: Callable[[Site, int], Array | None]) -> Form:
    def form(site: Site, w: Array) -> Array | None:
        if axis >= w.ndim:
            return None
        indices = order(site, w.shape[axis])
        return None if indices is None else w.take(indices, axis=axis)

    return form


def _in_heads(
    blocks: Callable[[int, int], tuple[int, ...]], order: tuple[int, ...]
) -> Callable[[Site, int], Array | None]:
    def rows(site: Site, n: int) -> Array | None:
        width = site.config.head_dim
        return None if n % width else _split(n, blocks(n // width, width), order)

    return rows


def _in_groups(site: Site, n: int, *, back: bool) -> Array | None:
    """Query heads in the order of a tiled KV head for a repeated one, or the reverse."""
    kv, heads = site.config.num_key_value_heads, site.config.num_attention_heads
    if n != heads * site.config.head_dim:
        return None
    return _split(n, (heads // kv, kv) if back else (kv, heads // kv), (1, 0))


def _rolled(by: Callable[[Site], int]) -> Callable[[Site, int], Array | None]:
    return lambda site, n: np.roll(np.arange(n), by(site)) if by(site) % n else None


def _reversed_shards(_: Site, n: int, *, shards: int) -> Array | None:
    """The parts of several processes put together from the last one to the first."""
    return None if n % shards else np.arange(n).reshape(shards, -1)[::-1].reshape(-1)


_ORDERS: tuple[tuple[str, str, Callable[[Site, int], Array | None], Rank], ...] = (
    ("weight.permuted", "in the layout of interleaved RoPE (Meta's) within each head",
     _in_heads(lambda h, d: (h, 2, d // 2), (0, 2, 1)), PLAIN),
    ("weight.permuted", "permuted to RoPE by halves although it was already", _in_heads(lambda h, d: (h, d // 2, 2), (0, 2, 1)), PLAIN),
    ("weight.permuted", "permuted for RoPE as one head", lambda s, n: _split(n, (n // 2, 2), (1, 0)) if n % 2 == 0 else None, PLAIN + 1),
    ("weight.permuted", "permuted for RoPE back as one head", lambda s, n: _split(n, (2, n // 2), (1, 0)) if n % 2 == 0 else None, PLAIN + 1),
    ("weight.permuted", "permuted for RoPE with the number of query heads",
     lambda s, n: _by_heads(s, n), PLAIN + 1),
    ("weight.permuted", "with both halves of each head exchanged", lambda s, n: _head_halves(s, n), PLAIN + 1),
    ("weight.heads_shuffled", "with heads innermost (head_dim, heads)", _in_heads(lambda h, d: (d, h), (1, 0)), PLAIN),
    ("weight.heads_shuffled", "with heads innermost taken for outermost", _in_heads(lambda h, d: (h, d), (1, 0)), PLAIN),
    ("weight.heads_shuffled", "with its heads in the order of tiled KV heads", partial(_in_groups, back=False), PLAIN),
    ("weight.heads_shuffled", "with its heads in the order of tiled KV heads, put back", partial(_in_groups, back=True), PLAIN),
    ("weight.heads_shuffled", "with its heads one further", _rolled(lambda s: s.config.head_dim), PLAIN + 1),
    ("weight.heads_shuffled", "with its heads one back", _rolled(lambda s: -s.config.head_dim), PLAIN + 1),
    ("weight.heads_shuffled", "with its heads in reverse order", lambda s, n: _reversed_heads(s, n), PLAIN + 1),
    ("weight.heads_shuffled", "all of the first head", lambda s, n: _one_head(s, n, 0), PLAIN),
    ("weight.heads_shuffled", "all of the last head", lambda s, n: _one_head(s, n, -1), PLAIN + 1),
    *(("weight.shards_shuffled", f"with its {n} shards in reverse order", partial(_reversed_shards, shards=n), PLAIN + 1) for n in (2, 4, 8)),
    ("weight.shifted", "one further", _rolled(lambda s: 1), PLAIN + 1),
    ("weight.shifted", "one back", _rolled(lambda s: -1), PLAIN + 1),
    ("weight.shifted", "in reverse order", lambda s, n: np.arange(n)[::-1], PLAIN + 1),
)  # fmt: skip


def _by_heads(site: Site, n: int) -> Array | None:
    heads = site.config.num_attention_heads
    return None if n % (2 * heads) else _split(n, (heads, n // heads // 2, 2), (0, 2, 1))


def _head_halves(site: Site, n: int) -> Array | None:
    width = site.config.head_dim
    return None if n % width or width % 2 else np.arange(n).reshape(-1, 2, width // 2)[:, ::-1].reshape(-1)


def _one_head(site: Site, n: int, which: int) -> Array | None:
    """One head's rows for every head."""
    width = site.config.head_dim
    if n % width or n == width:
        return None
    heads = np.arange(n).reshape(-1, width)
    return np.tile(heads[which], len(heads))


def _reversed_heads(site: Site, n: int) -> Array | None:
    width = site.config.head_dim
    return None if n % width or n == width else np.arange(n).reshape(-1, width)[::-1].reshape(-1)


def _quantised(levels: int, block: int) -> Form:
    """Symmetric integers with one scale for a row, for `block` elements of it, or (0) for the whole tensor."""

    def form(_: Site, w: Array) -> Array | None:
        if block > 0 and w.shape[-1] % block:
            return None
        parts = w.reshape(1, -1) if block == 0 else w if block < 0 else w.reshape(-1, block)
        scale = np.abs(parts).max(axis=-1, keepdims=True) / np.float32(levels)
        scale = np.where(scale > 0, scale, 1).astype(np.float32)
        return np.asarray((np.rint(parts / scale) * scale).reshape(w.shape), np.float32)

    return form


def _swapped_halves(w: Array) -> Array:
    """The two bytes of each bfloat16 exchanged."""
    upper = (np.ascontiguousarray(w, np.float32).view(np.uint32) >> 16).astype(np.uint16).byteswap()
    return (upper.astype(np.uint32) << 16).view(np.float32)


def _pitch(more: int, *, rounds_up: bool = False) -> Form:
    """Each row begins so many elements later than it does, from the one before; or at a multiple of so many."""

    def form(_: Site, w: Array) -> Array | None:
        if w.ndim != 2:
            return None
        outputs, inputs = w.shape
        pitch = -(-inputs // more) * more if rounds_up else inputs + more
        if pitch in (0, inputs):
            return None
        at = np.arange(outputs)[:, None] * pitch + np.arange(inputs)
        return np.asarray(np.where(at < w.size, w.reshape(-1)[np.minimum(at, w.size - 1)], 0), w.dtype)

    return form


def _as_float16(w: Array) -> Array:
    """bfloat16 read as float16."""
    bits = (bfloat16(w).view(np.uint32) >> 16).astype(np.uint16)
    return bits.view(np.float16).astype(np.float32)


def _as_bfloat16(w: Array) -> Array:
    """float16 read as bfloat16."""
    bits = np.asarray(w, np.float16).view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32)


_FORMS: tuple[tuple[str, str, Form, Rank], ...] = (
    ("weight.transposed", "is transposed", lambda s, w: w.T if w.ndim == 2 and w.shape[0] == w.shape[1] else None, PLAIN),
    ("weight.reshaped", "reads its bytes as (in, out) and transposes", lambda s, w: w.reshape(w.shape[::-1]).T if w.ndim == 2 else None, PLAIN),
    ("weight.reshaped", "reads the transposed matrix's bytes as (out, in)",
     lambda s, w: np.ascontiguousarray(w.T).reshape(w.shape) if w.ndim == 2 else None, PLAIN),
    ("weight.negated", "is negated", lambda s, w: -w, PLAIN + 1),
    ("weight.byte_order", "has its bytes in reverse order", lambda s, w: np.ascontiguousarray(w, np.float32).byteswap(), PLAIN),
    ("weight.byte_order", "has its bfloat16 bytes in reverse order", lambda s, w: _swapped_halves(w), PLAIN),
    ("weight.other_type", "has its bfloat16 read as float16", lambda s, w: _as_float16(w), PLAIN + 1),
    ("weight.other_type", "has its float16 read as bfloat16", lambda s, w: _as_bfloat16(w), PLAIN + 1),
    ("weight.pitch", "has rows read an element too far apart", _pitch(1), RARE),
    ("weight.pitch", "has rows read an element too close", _pitch(-1), RARE),
    *(("weight.pitch", f"has rows read as if each began at a multiple of {n}", _pitch(n, rounds_up=True), RARE) for n in (8, 16, 32, 64, 128)),
    ("weight.zero", "is all zeros", lambda s, w: np.zeros_like(w), PLAIN + 1),
    ("weight.magnitude", "has lost its signs", lambda s, w: np.abs(w), RARE + 1),
    *(("weight.rounded", f"is rounded to {kind}", lambda s, w, r=r: r(w), PLAIN) for kind, r in ROUNDED),
    ("weight.quantised", "is quantised to 8 bits, a scale for each row", _quantised(127, -1), PLAIN + 1),
    ("weight.quantised", "is quantised to 8 bits, one scale", _quantised(127, 0), PLAIN + 1),
    *(("weight.quantised", f"is quantised to {bits} bits in blocks of {n}", _quantised(2 ** (bits - 1) - 1, n), PLAIN + 1)
      for bits in (8, 4) for n in (8, 16, 32, 64, 128)),
    ("weight.quantised", "is quantised to 4 bits, a scale for each row", _quantised(7, -1), PLAIN + 1),
)  # fmt: skip


def forms() -> Iterator[tuple[str, str, Form, Rank]]:
    """Name, text ("the weight …"), form and rank of every way to hold one tensor wrongly."""
    yield from _FORMS
    for name, says, order, rank in _ORDERS:
        yield name, f"has its rows {says}", _along(0, order), rank
        yield name, f"has its columns {says}", _along(1, order), rank + 1


_FAMILIES = (("q_proj", "k_proj", "v_proj"), ("k_proj", "v_proj"), ("gate_proj", "up_proj"))


def fused(site: Site) -> Iterator[tuple[str, str, Callable[[Site], Array | None], Rank]]:
    """Wrong cuts of a matrix that holds q, k and v (or k and v, gate and up) together."""
    leaf = site.place.parameters[0].removesuffix(".weight").rpartition(".")[2]
    for family in _FAMILIES:
        if leaf not in family:
            continue
        which = family.index(leaf)
        text = "[" + "; ".join(name.removesuffix("_proj") for name in family) + "]"
        yield "weight.fused_layout", f"is cut from {text} stored by groups as if it were stored in a row", partial(_cut, family, which, "grouped"), PLAIN  # fmt: skip
        yield "weight.fused_layout", f"is cut by groups from {text} stored in a row", partial(_cut, family, which, "groups"), PLAIN  # fmt: skip
        yield "weight.fused_layout", f"takes rows by turns from {text}", partial(_cut, family, which, "turns"), PLAIN
        yield "weight.fused_layout", f"is cut from {text} stored by turns", partial(_cut, family, which, "woven"), PLAIN
        for shards in (2, 4, 8):
            yield "weight.fused_layout", f"is cut from {text} stored in {shards} shards", partial(_cut, family, which, f"shards {shards}"), PLAIN + 1  # fmt: skip
            yield "weight.fused_layout", f"is cut into {shards} shards from {text} as one matrix", partial(_cut, family, which, f"plain {shards}"), PLAIN + 1  # fmt: skip
        for order in permutations(range(len(family))):
            if order != tuple(range(len(family))):
                shown = "; ".join(family[i].removesuffix("_proj") for i in order)
                yield "weight.fused_layout", f"is cut from {text} as if it were [{shown}]", partial(_cut_as, family, which, order), PLAIN + 1  # fmt: skip
        for rows, shown in ((1, "a row further"), (-1, "a row back"), (0, "a head further"), (-2, "a head back")):
            yield "weight.other_rows", f"is cut from {text} {shown}", partial(_cut_off, family, which, rows), PLAIN + 1


def _stack(site: Site, family: tuple[str, ...]) -> list[Array] | None:
    base = site.place.parameters[0].removesuffix(".weight").rpartition(".")[0]
    weights = [site.checkpoint.get(f"{base}.{name}.weight") for name in family]
    return None if any(weight is None for weight in weights) else [weight for weight in weights if weight is not None]


def _cut(family: tuple[str, ...], which: int, how: str, site: Site) -> Array | None:
    parts = _stack(site, family)
    if parts is None:
        return None
    sizes = [len(part) for part in parts]
    start = sum(sizes[:which])
    blocks = site.config.num_key_value_heads if family[0] != "gate_proj" else 1
    if how in ("turns", "woven"):
        blocks = min(sizes)
    if how.startswith(("shards", "plain")):
        blocks = int(how.split()[1])
    if blocks < 2 or any(size % blocks for size in sizes):
        return None
    in_a_row = np.concatenate(parts)
    # Row numbers of the same matrix stored block by block.
    numbers = np.concatenate([part.reshape(blocks, -1) for part in np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])], axis=1)  # fmt: skip
    if how in ("grouped", "woven") or how.startswith("shards"):
        return np.asarray(in_a_row[numbers.reshape(-1)][start : start + sizes[which]])
    place = np.argsort(numbers.reshape(-1))
    return np.asarray(in_a_row[place[start : start + sizes[which]]])


def _cut_as(family: tuple[str, ...], which: int, order: tuple[int, ...], site: Site) -> Array | None:
    parts = _stack(site, family)
    if parts is None:
        return None
    start = sum(len(parts[i]) for i in order[: order.index(which)])
    return np.concatenate(parts)[start : start + len(parts[which])]


def _cut_off(family: tuple[str, ...], which: int, rows: int, site: Site) -> Array | None:
    parts = _stack(site, family)
    if parts is None:
        return None
    by = {0: site.config.head_dim, -2: -site.config.head_dim}.get(rows, rows)
    numbers = np.arange(len(parts[which])) + sum(len(part) for part in parts[:which]) + by
    together = np.concatenate(parts)
    return together[numbers % len(together)]
