"""Wrong formulas: a formula is all that is written of one, and how far rounding moves it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.ranks import Rank
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, SMALLEST_NORMAL
from qwen3_spec.site import Result, Site, Taps

Wrong = Callable[[Site], "Array | None"]
"""The wrong output on a site's inputs; None where it cannot be made."""
_DRAWS = 4
"""How often a formula is computed with noise."""
_EXACT = frozenset({"negative", "absolute", "maximum", "minimum", "clip", "sign"})


class _Noisy(np.ndarray[Any, np.dtype[Any]]):
    """Numbers whose every op moves its result by up to one float32 roundoff, a sum by those of its terms."""

    random: Any = None

    def __array_finalize__(self, source: Any) -> None:
        self.random = getattr(source, "random", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **more: Any) -> Any:
        more.pop("out", None)
        plain = [x.view(np.ndarray) if isinstance(x, _Noisy) else x for x in operands]
        y = np.asarray(getattr(ufunc, method)(*plain, **more))
        if y.dtype == object:  # a function of Python's
            y = y.astype(np.float64)
        if y.dtype.kind != "f" or ufunc.__name__ in _EXACT:
            return self.like(y)
        by = np.where(np.isfinite(y), np.abs(y), 0)
        if method == "reduce":
            by = by * y.size**-0.5 * plain[0].size ** 0.5 + np.sqrt(np.add.reduce(np.square(plain[0]), **more))
        return self.like(y + FLOAT32_ROUNDOFF * by * self.random.uniform(-1, 1, y.shape))

    def __array_function__(self, function: Any, types: Any, operands: Any, more: Any) -> Any:
        y = super().__array_function__(function, types, operands, more)
        return self.like(y) if type(y) is np.ndarray else y

    def like(self, y: Array) -> Any:
        """Numbers with the same noise; what is none, as it is."""
        if y.dtype.kind != "f":
            return y
        noisy = y.view(_Noisy)
        noisy.random = self.random
        return noisy


@dataclass(frozen=True)
class Formula:
    """A `Compute` of a wrong formula; its unit is the most by which noise in every op moved it."""

    wrong: Wrong

    @np.errstate(all="ignore")
    def __call__(self, site: Site) -> Result | None:
        """The output and its unit; zeros where nobody asks for units."""
        y = self.wrong(site)
        if y is None or not site.values.units:
            return None if y is None else (y, np.broadcast_to(0.0, y.shape))
        noise = np.zeros(y.shape)
        random = np.random.Generator(np.random.PCG64(0))
        for _ in range(_DRAWS):
            moved = self.wrong(_moved(site, random))
            if moved is not None:
                noise = np.fmax(noise, np.abs(np.asarray(moved) - y))
        return y, noise + FLOAT32_ROUNDOFF * np.abs(y) + SMALLEST_NORMAL


class _Moved:
    """What else was recorded, moved where it is read."""

    def __init__(self, values: Taps, move: Callable[[Array], Array]) -> None:
        self._values, self._move = values, move

    def value(self, name: str, step: int) -> Array | None:
        x = self._values.value(name, step)
        return None if x is None else self._move(x)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._values, name)


def _moved(site: Site, random: np.random.Generator) -> Site:
    """The site with inputs, parameters and other taps that are noisy, and a roundoff off."""

    def move(x: Array) -> Array:
        if x.dtype.kind != "f":
            return x
        noisy = np.array(x, np.float64).view(_Noisy)
        noisy.random = random
        return np.asanyarray(1.0 * noisy)

    parameters = {name: move(np.asarray(value)) for name, value in site.parameters.items()}
    values = cast(Taps, _Moved(site.values, move))
    return replace(site, inputs=tuple(map(move, site.inputs)), parameters=parameters, values=values)


def inputs(site: Site) -> tuple[Array, ...]:
    """A site's inputs in float64."""
    return tuple(np.asanyarray(x, np.float64) for x in site.inputs)


def on_inputs(formula: Callable[..., Array]) -> Wrong:
    """A formula of the inputs alone."""
    return lambda site: formula(*inputs(site))


def rows(prefix: str, fix: str, table: Iterable[tuple[str, str, Rank, Wrong]]) -> Iterator[Hypothesis]:
    """A table of wrong formulas: the end of the name, what it does, its rank, the formula."""
    for name, says, rank, wrong in table:
        yield Hypothesis(f"{prefix}.{name}", says, fix, Formula(wrong), rank)


def combined(*tables: Sequence[tuple[str, str, Any, int]]) -> Iterator[tuple[list[str], str, list[Any], int]]:
    """Every choice of a row of each table (name, words, part, steps): names of what is wrong, words, parts, steps.

    A row without a name is right.
    """
    for choice in product(*tables):
        names, words, parts, ranks = zip(*choice, strict=True)
        yield [name for name in names if name], " and ".join(filter(None, words)), list(parts), sum(ranks)
