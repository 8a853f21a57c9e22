"""The rest of an axis that fills no whole block, of any op: never written, written from its neighbour, or left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.generic import BLOCKS
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import Observed, asks_for_all, likely, observe
from qwen3_parity.mistakes.ranks import RARE
from qwen3_parity.mistakes.rms_norm import rows
from qwen3_parity.mistakes.rope import turned
from qwen3_spec.arithmetic import FLOAT64
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_FIX = "work on what fills no whole block, too"

Axes = tuple[int, ...]
"""The axes that a kernel walks along as one: a batch's rows and positions are the rows of a product."""
Fill = Callable[[Site, Array, Axes, int], "Array | None"]
"""What stands there: of a site, its right output with the walked axes first and as one, and where the rest begins."""


def _zeros(_: Site, y: Array, __: Axes, ___: int) -> Array:
    return np.zeros_like(y)


def _last_whole(_: Site, y: Array, __: Axes, start: int) -> Array | None:
    """What was computed last, once more."""
    return np.broadcast_to(y[start - 1], y.shape) if start else None


_UNDONE: Mapping[str, tuple[tuple[str, Callable[[Site], Array]], ...]] = {
    "residual": (("the stream without the branch", lambda site: site.inputs[0]),
                 ("the branch without the stream", lambda site: site.inputs[1])),
    "swiglu": (("gate * up without the activation", lambda site: site.inputs[0] * site.inputs[1]),
               ("up alone", lambda site: site.inputs[1]), ("the gate alone", lambda site: site.inputs[0])),
    "activation": (("its input", lambda site: site.inputs[0]),),
    "rms_norm": (("its input", rows), ("the normed row without the weight", lambda site: _unweighted(site))),
    "head_norm": (("its input", rows), ("the normed row without the weight", lambda site: _unweighted(site))),
    "rope": (("its input", lambda site: turned(site)[0]),),
}  # fmt: skip
"""What an op hands on where it was not done, or half."""


def _unweighted(site: Site) -> Array:
    return OPS[site.place.op].truth(site)[0] / np.asarray(site.parameters["weight"], np.float64)


def tails(site: Site) -> Iterator[Hypothesis]:
    """All that is wrong lies beyond the last whole block of an axis: which block, and what stands there."""
    observed, op = observe(site), site.place.op
    hidden = site.values.recorded(site.place.name, site.step) is None
    if (observed is None and not hidden) or op.endswith("gradient"):
        return
    fills: list[tuple[str, str, Fill]] = [
        ("tail.zero", "zero", _zeros),
        ("tail.repeated", "what stands before it", _last_whole),
    ]
    for says, undone in _UNDONE.get(op, ()):
        fills.append(("tail.undone", says, partial(_undone, undone)))
    for axes, along, block in _rests(site) if observed is None else _wrong_rests(site, observed):
        for name, says, fill in fills:
            text = f"has {says} along {along} beyond the last whole block of {block}"
            # Where nothing says what is wrong, one of the two is enough.
            for alone, more in ((True, ""), (False, ", and where there is none"))[: 1 if hidden else 2]:
                guess = Hypothesis(
                    name, text + more, _FIX, partial(_filled, axes, block, fill, alone), RARE + (not alone)
                )
                if observed is None:
                    yield guess
                else:
                    yield from likely(site, observed, [guess])


def _rests(site: Site) -> Iterator[tuple[Axes, str, int]]:
    """Every axis that a kernel may walk along with the blocks that leave a rest of it, one of those with the same."""
    if not asks_for_all():
        return
    shape = OPS[site.place.op].at_site(site, FLOAT64).shape
    for axes, along in _walks(site, len(shape)):
        size = int(np.prod([shape[i] for i in axes]))
        blocks = {size - size % block: block for block in BLOCKS if size > block and size % block}
        yield from ((axes, along, block) for block in blocks.values())


def _wrong_rests(site: Site, observed: Observed) -> Iterator[tuple[Axes, str, int]]:
    """Those beyond which lies all that is wrong."""
    for axes, along in _walks(site, observed.truth.ndim):
        others = tuple(i for i in range(observed.wrong.ndim) if i not in axes)
        wrong = np.flatnonzero(observed.wrong.any(axis=others))
        size = int(np.prod([observed.truth.shape[i] for i in axes]))
        for block in BLOCKS:
            if 0 < size % block < size and wrong[0] >= size - size % block:
                yield axes, along, block


def _walks(site: Site, rank: int) -> Iterator[tuple[Axes, str]]:
    names = site.place.axes
    for axis, name in enumerate(names[:rank]):
        yield (axis,), name
    for count in range(2, rank):
        if names[0] == "batch":
            yield tuple(range(count)), f"{' and '.join(names[:count])} as one axis"


def _undone(undone: Callable[[Site], Array], site: Site, _: Array, axes: Axes, __: int) -> Array:
    return _flat(np.asarray(undone(site), np.float64), axes)


def _filled(axes: Axes, block: int, fill: Fill, alone: bool, site: Site) -> Result | None:
    y, unit = OPS[site.place.op].truth(site)
    size = int(np.prod([y.shape[i] for i in axes]))
    start = size - size % block
    if start == 0 and alone:
        return y, unit
    tail = fill(site, _flat(y, axes), axes, start)
    if tail is None:
        return None
    if unit is not None and fill is _last_whole:
        unit = _with_rest(unit, np.broadcast_to(_flat(unit, axes)[start - 1], tail.shape), axes, start)
    return _with_rest(y, tail, axes, start), unit


def _with_rest(y: Array, tail: Array, axes: Axes, start: int) -> Array:
    """`y` with what stands beyond the last whole block."""
    index = np.arange(len(tail)).reshape(-1, *[1] * (tail.ndim - 1))
    values = np.where(index < start, _flat(y, axes), tail)
    shape = [y.shape[i] for i in axes] + [y.shape[i] for i in range(y.ndim) if i not in axes]
    return np.moveaxis(values.reshape(shape), range(len(axes)), axes).astype(y.dtype)


def _flat(y: Array, axes: Axes) -> Array:
    """The walked axes first, as one."""
    moved = np.moveaxis(y, axes, range(len(axes)))
    return moved.reshape(-1, *moved.shape[len(axes) :])
