"""A matrix product as whoever looks for the structure of its weight sees it, by whichever judge it was judged by."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.rounding import bfloat16, float16
from qwen3_spec.aten.noise import ROUNDOFF
from qwen3_spec.ops import linear
from qwen3_spec.rounding import FLOAT32_ROUNDOFF

LARGEST = 1 << 22
"""Weights from which on no structure is looked for: each guess is a product with all of them."""
POSITIONS = 256
"""Positions that are looked at: more tell no more."""
MOST = 0.9
"""The part of the outputs that a guess must bring back: a single weight of a block may be rounded to the other side."""

_STEPS = 2.0
"""Roundings of a row's largest weight that whoever makes a weight of another may add."""
_REMEMBERED = 1024
"""Products whose answers are remembered."""
_INPUTS = 512
"""Inputs of a weight as it was loaded that are looked at: each is a position."""

Cast = Callable[[Array], Array]
_NARROW: tuple[tuple[float, Cast], ...] = ((ROUNDOFF["bfloat16"], bfloat16), (ROUNDOFF["float16"], float16))
"""The roundoff of narrower types, and numbers in them."""


def _as_it_is(numbers: Array) -> Array:
    return numbers


@dataclass(frozen=True)
class Product:
    """What a linear of one parameter gave, over all steps: `y[position, out]` of `x[position, in]`, real tokens alone.

    `weight` is `[out, in]`, `bias` `[out]`, as the checkpoint has them, float64; `name` is the weight's. `noise` are
    rounding units beside the product's own, of the shape of `y`, `roundoff` what storing `y` costs of its size.
    `loaded`: whether the candidate's digest of the weight is the checkpoint's, None where nobody says it. `tensors` has
    every parameter by name. `hidden`: x was not recorded but computed, so that the mistake may be ahead.
    `ends` are the smallest and the largest number of the whole tensor that each position is of, padding too, where
    x is one, `[position, 2]`.
    `held` are the weight's first rows and inputs as the candidate holds them, where its recording has them, and
    `by_positions` is the product by what was recorded, where these are not all of the weight.
    """

    name: str
    x: Array
    weight: Array
    bias: Array
    y: Array
    noise: Array
    headroom: float
    roundoff: float = 0.0
    loaded: bool | None = None
    tensors: Mapping[str, Array] = field(default_factory=dict, repr=False)
    hidden: bool = False
    ends: Array | None = None
    held: Array | None = field(default=None, repr=False)
    by_positions: Product | None = field(default=None, repr=False)

    @property
    def positions(self) -> int:
        """How many different positions there are."""
        return len(np.unique(self.x, axis=0))

    @cached_property
    def truth(self) -> Array:
        """What it should be, `[position, out]`."""
        return np.asarray(self.x @ self.weight.T + self.bias)

    @cached_property
    def digest(self) -> bytes:
        """The same for products of the same numbers, whatever their names."""
        digest = hashlib.sha256(repr((self.headroom, self.roundoff)).encode())
        for numbers in (
            self.x,
            self.weight,
            self.bias,
            self.y,
            self.noise,
            np.zeros(0) if self.ends is None else self.ends,
        ):
            digest.update(repr((numbers.shape, numbers.dtype.str)).encode())
            digest.update(np.ascontiguousarray(numbers).tobytes())
        return digest.digest()

    @property
    def products(self) -> Array:
        """What was recorded, without the bias, `[position, out]`."""
        return self.y - self.bias

    @cached_property
    def missing(self) -> Array:
        """What was recorded less what it should be, `[position, out]`."""
        return self.y - self.truth

    @cached_property
    def limits(self) -> Array:
        """How far each number may be from what it should be, `[position, out]`."""
        return self._limits(self.truth, linear.unit(self.x, self.weight, self.bias))

    def _limits(self, values: Array, unit: Array) -> Array:
        return np.asarray(self.headroom * (unit + self.roundoff * np.abs(values) + self.noise))

    def errors(self, x: Array, weight: Array, bias: Array) -> Array:
        """How far `x @ weight.T + bias` is from what was recorded, as a part of what it may be: `[position, out]`."""
        guess, unit = linear.judged(x, weight, bias)
        return np.asarray(np.abs(self.y - guess) / self._limits(guess, unit))

    @cached_property
    def wrong(self) -> Array:
        """Bool, True = the output is wrong at some position, `[out]`."""
        return np.asarray((np.abs(self.missing) > self.limits).any(0))

    def share(self, *, x: Array | None = None, weight: Array | None = None, bias: Array | None = None) -> float:
        """The part of the wrong outputs that another input, weight or bias gives at every position; 0 below `MOST`.

        So many of all outputs must be right, too.
        """
        return self.share_of(self.reproduced(x=x, weight=weight, bias=bias))

    def reproduced(self, *, x: Array | None = None, weight: Array | None = None, bias: Array | None = None) -> Array:
        """Bool, True = another input, weight or bias gives the output at every position, `[out]`."""
        x, weight = self.x if x is None else x, self.weight if weight is None else weight
        errors = self.errors(x, weight, self.bias if bias is None else bias)
        return np.asarray((errors <= 1).all(0))

    def share_of(self, good: Array) -> float:
        """The part of the wrong outputs that are `good[out]`, or of all of them where that is less; 0 below `MOST`."""
        part = min(float(good.mean()), float(good[self.wrong].mean())) if self.wrong.any() else 0.0
        return part if part >= MOST else 0.0

    @property
    def casts(self) -> tuple[tuple[Cast, Cast], ...]:
        """What becomes of a weight before it is held in few bits, and of what is read back: a run's type has both."""
        narrow = next((cast for roundoff, cast in _NARROW if roundoff == self.roundoff), None)
        if narrow is None or self.held is not None:
            return ((_as_it_is, _as_it_is),)
        return (narrow, narrow), (_as_it_is, narrow), (narrow, _as_it_is), (_as_it_is, _as_it_is)

    def part(self, positions: Array | slice = slice(None), outputs: Array | slice = slice(None)) -> Product:
        """The same with these positions and outputs alone."""
        return replace(
            self,
            x=self.x[positions],
            weight=self.weight[outputs],
            bias=self.bias[outputs],
            y=self.y[positions][:, outputs],
            noise=self.noise[positions][:, outputs],
            ends=None if self.ends is None else self.ends[positions],
        )


def by_held(product: Product, held: Array | None) -> Product:
    """The product with the weight that the candidate holds: what each of its first inputs by itself makes of its rows.

    As it was where the recording has none, and where it gives other numbers than were recorded.
    """
    if held is None or held.ndim != 2 or held.shape[1] != product.weight.shape[1] or len(held) > len(product.weight):
        return product
    part, rows = product.part(outputs=slice(len(held))), np.asarray(held, np.float64)
    if product.x.size and not (part.errors(part.x, rows, part.bias) <= 1).all():
        return product
    weight, rows = part.weight[:, :_INPUTS], rows[:, :_INPUTS]
    size = np.maximum(np.abs(rows), np.abs(weight)).max(axis=1)
    noise = _STEPS * FLOAT32_ROUNDOFF * size + product.roundoff * np.abs(rows.T)
    y = rows.T + part.bias
    cut = product if product.x.size and weight.shape != product.weight.shape else None
    return replace(
        part, x=np.eye(rows.shape[1]), weight=weight, y=y, noise=noise, ends=None, held=rows, by_positions=cut
    )


def ends_of(x: Array) -> Array:
    """The smallest and the largest number of a tensor at each of its positions, `[position, 2]`."""
    return np.broadcast_to(np.array([x.min(initial=0), x.max(initial=0)]), (len(x), 2))


def spread(count: int) -> Array:
    """The indices of at most `POSITIONS` of so many positions."""
    return np.arange(count)[:: max(1, -(-count // POSITIONS))]


Form = Callable[[Product], "tuple[str, str, float] | None"]
"""A structure of the weight that the numbers may have: its name, what is said of it, the part that it reproduces."""


def looked_for_once(form: Form) -> Form:
    """A form that reads the numbers alone: a diagnosis meets the same weight at many taps, and by several ways."""
    answers = dict[bytes, tuple[tuple[str, str, float] | None]]()

    def remembered(product: Product) -> tuple[str, str, float] | None:
        answer = answers.get(product.digest)
        if answer is None:
            if len(answers) >= _REMEMBERED:
                answers.clear()
            answer = answers[product.digest] = (form(product),)
        return answer[0]

    return remembered
