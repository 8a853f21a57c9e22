"""Monte Carlo arithmetic: float64 in which every op moves its result by about one rounding of a narrower type.

How far results scatter over a few draws is how far honest arithmetic of that type may end from the truth.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace

import numpy as np

from qwen3_spec.arithmetic import FLOAT64 as FLOAT64_SUMS
from qwen3_spec.arithmetic import Array
from qwen3_spec.aten import large
from qwen3_spec.aten.numbers import Numbers
from qwen3_spec.sums import dot_products, twins

Product = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""A product of matrices: its node, which piece of it, and the shapes of its two sides."""
ROUNDOFF = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11, "float64": 2.0**-24}
"""Half the distance of neighbouring numbers at 1. What a graph has in float64 is computed in float32 by most."""
_APPROXIMATED = 4 * 2.0**-24
"""torch 2.13's erf on a CPU is up to 8.5 × 2^-24 off: two of these."""


@dataclass(frozen=True)
class Truth(Numbers):
    """float64 that leaves `roundings` and `bases` to the draws of the same values."""

    roundings: MutableMapping[Product, Array] = field(default_factory=dict, repr=False)
    bases: MutableMapping[Product, large.Base] = field(default_factory=dict, repr=False)
    node: int = 0
    part: int = 0

    def at(self, value: int) -> Truth:
        """The truth of a node."""
        return Truth(self.arithmetic, self.roundings, self.bases, value)

    def piece(self, number: int) -> Truth:
        """The truth of a part of the node's product."""
        return replace(self, part=number)

    def large(self, left: Array, right: Array) -> Array:
        """A product with a large matrix; a node's first is held, for draws and for who asks again."""
        key = self.node, self.part, left.shape, right.shape
        base = self.bases.get(key)
        if base is not None and large.is_of(base, left, right) and np.array_equal(base.left, left):
            return base.product
        return large.product(left, right) if key in self.roundings else _as_base(self, key, left, right)


@dataclass(frozen=True)
class Noise(Numbers):
    """One draw. `narrow`: bfloat16 and float16 of the graph are that; else all floats are float32's.

    An element that the type holds as it is was exact and stays: a position times 1, a power of two, a copy. Numbers are
    drawn by draw and node, so that a slice has the same whatever else is run. How far a product's sums drift hardly
    depends on the draw: `roundings` has it by node and shapes, from the truth or the first draw that came by. `bases`
    has the products of that with large matrices: those of other draws are computed beside them. `generators` has the
    node's own, once it has drawn.
    """

    draw: int
    narrow: bool = False
    node: int = 0
    part: int = 0
    roundings: MutableMapping[Product, Array] = field(default_factory=dict, repr=False)
    bases: MutableMapping[Product, large.Base] = field(default_factory=dict, repr=False)
    generators: MutableMapping[int, np.random.Generator] = field(default_factory=dict, repr=False)

    def at(self, value: int) -> Noise:
        """The draw of a node."""
        return Noise(self.arithmetic, self.draw, self.narrow, value, 0, self.roundings, self.bases)

    def piece(self, number: int) -> Noise:
        """The draw of a part of the node's product, which goes on with the node's numbers."""
        return replace(self, part=number)

    @property
    def _rng(self) -> np.random.Generator:
        """Made where a node draws at all: most only move numbers, and making it takes longer than they do."""
        if self.node not in self.generators:
            seeds = np.random.SeedSequence([self.draw, self.node])
            self.generators[self.node] = np.random.Generator(np.random.PCG64(seeds))
        return self.generators[self.node]

    def moved(self, x: Array, by: Array | float) -> Array:
        """Each element moved by a part of `by`, to either side."""
        return np.asarray(x + by * self._rng.uniform(-1, 1, x.shape))

    def stored(self, x: Array, dtype: str) -> Array:
        """A value that was recorded in this dtype: whoever went on with it may have had it before it was rounded."""
        if x.dtype.kind != "f":
            return x
        return self.moved(x, np.where(np.isfinite(x), ROUNDOFF[dtype] * np.abs(x), 0))  # a mask's infinities stay

    def rounded(self, x: Array) -> Array:
        """A float32 intermediate result."""
        return self._rounded(x, "float32")

    def approximated(self, x: Array) -> Array:
        """Off by a few spacings of float32 at 1, however small it is: what torch's own erf is on a processor."""
        return self.moved(x, _APPROXIMATED)

    def result(self, x: Array, dtype: str) -> Array:
        """The result of an op, in the graph's own dtype where that is narrow."""
        return self._rounded(x, dtype if self.narrow else "float32")

    def cast(self, x: Array, dtype: str) -> Array:
        """A value in a narrower dtype, where the graph's own count."""
        return self._rounded(x, dtype) if self.narrow and dtype in ("bfloat16", "float16") else x

    def _rounded(self, x: Array, dtype: str) -> Array:
        if x.dtype.kind != "f":
            return x
        return self.moved(x, np.where(holds(x, dtype), 0, ROUNDOFF.get(dtype, ROUNDOFF["float32"]) * np.abs(x)))

    def matmul(self, a: Array, b: Array) -> Array:
        """A product whose partial sums were rounded, in any order."""
        if a.dtype.kind != "f":
            return super().matmul(a, b)
        left = self.lifted(a[None] if a.ndim == 1 else a)
        right = b[:, None] if b.ndim == 1 else b
        key = self.node, self.part, left.shape, right.shape
        if large.is_large(right):
            product = self._large(key, left, right)
        elif key not in self.roundings:
            right = self.lifted(right)
            product, drift = dot_products(left, right)
            roundings = np.sqrt(drift)
            if b.ndim > 2:  # one token repeated makes products that round the same way; weights are never so
                alike = np.minimum(twins(left)[..., None], twins(np.swapaxes(right, -1, -2))[..., None, :])
                roundings = roundings * (1 + alike * math.sqrt(left.shape[-1]) / 2)
            self.roundings[key] = roundings
        else:
            product = np.matmul(left, self.lifted(right))
        product = self.moved(product, ROUNDOFF["float32"] * self.roundings[key])
        if b.ndim == 1:
            product = product[..., 0]
        return product[..., 0, :] if a.ndim == 1 and b.ndim > 1 else product[..., 0] if a.ndim == 1 else product

    def _large(self, key: Product, left: Array, right: Array) -> Array:
        base = self.bases.get(key)
        if base is not None and large.is_of(base, left, right):
            return large.beside(base, left)
        if key in self.roundings:
            return large.product(left, right)
        return _as_base(self, key, left, right)

    def sum(self, value: Array, axes: tuple[int, ...], *, keepdims: bool = False) -> Array:
        """A sum whose partial sums were rounded, in any order."""
        if value.dtype.kind != "f":
            return super().sum(value, axes, keepdims=keepdims)
        axes = tuple(sorted(axis % value.ndim for axis in axes))
        last = np.moveaxis(value, axes, range(-len(axes), 0))
        flat = last.reshape(*last.shape[: value.ndim - len(axes)], 1, -1)
        total, drift = dot_products(flat, np.ones((flat.shape[-1], 1)))
        by = ROUNDOFF["float32"] * np.sqrt(drift)[..., 0, 0]
        total = self.moved(total[..., 0, 0], np.maximum(by, _lost(flat[..., 0, :])))
        return np.expand_dims(total, axes) if keepdims else total

    def running_sum(self, value: Array, axis: int) -> Array:
        """Sums each of which was rounded before the next element came."""
        sums = np.cumsum(value, axis, dtype=value.dtype)
        if value.dtype.kind != "f":
            return sums
        steps = self.moved(np.zeros_like(sums), ROUNDOFF["float32"] * np.abs(sums))
        return np.asarray(sums + np.cumsum(steps, axis))


def _as_base(numbers: Truth | Noise, key: Product, left: Array, right: Array) -> Array:
    product, drift = large.products(left, right)
    numbers.roundings[key] = np.sqrt(drift)
    if product.size <= large.HELD:
        numbers.bases[key] = large.Base(left, right, product)
    return product


def _lost(terms: Array) -> Array:
    """What float32 loses of sums over the last axis, in one order or the other: terms that are alike round alike."""
    with np.errstate(all="ignore"):
        narrow = terms.astype(np.float32)
        total = narrow.sum(-1, dtype=np.float64)
        sums = (np.add.accumulate(part, axis=-1)[..., -1:].sum(-1) for part in (narrow, narrow[..., ::-1]))
        return np.asarray(np.maximum(*(np.abs(part - total) for part in sums)))


def holds(x: Array, dtype: str) -> Array:
    """Where a type holds numbers as they are."""
    with np.errstate(all="ignore"):
        narrow = x.astype(np.float16 if dtype == "float16" else np.float32)
    same = np.asarray((narrow == x) | ~np.isfinite(x))
    if dtype == "bfloat16":
        same &= np.asarray((narrow.view(np.uint32) & 0xFFFF) == 0)
    return same


def draws(count: int, *, narrow: bool = False) -> list[Noise]:
    """Independent draws, the same ones every time, of one graph on one set of values."""
    roundings, bases = dict[Product, Array](), dict[Product, large.Base]()
    return [Noise(FLOAT64_SUMS, draw, narrow, roundings=roundings, bases=bases) for draw in range(count)]
