"""Sums that are added up in a narrower type, one term after the other: of any op that has a sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import Observed, asks_for_all, explains, unit_of
from qwen3_parity.mistakes.ranks import RARE
from qwen3_parity.mistakes.rounding import bfloat16, float16
from qwen3_spec.arithmetic import FLOAT64, Arithmetic
from qwen3_spec.ops import OPS
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

_TYPES = (("bfloat16", bfloat16, 2.0**-8), ("float16", float16, 2.0**-11))
_FIX = "add up in float32, whatever the type of the terms"

_SMALL = 1 << 13
"""Elements of a place without a tap at which it is tried nevertheless."""
_MOST = 0.5
"""The error of a narrow sum, of its size, at most: it is added up term by term, which takes long to try."""

Rounded = Callable[[Array], Array]


def narrow_sums(site: Site, observed: Observed | None) -> Iterator[Hypothesis]:
    """A narrow accumulator, to which products are added as they are or rounded first.

    Noise may tip a tie on the way, and all partial sums behind it: most of the wrong cells must be right to the bit, a
    few may be a rounding of the narrow type off.
    """
    if observed is None:
        yield from _unseen(site)
        return
    if _size(observed.actual - observed.truth, observed.wrong) > _MOST * _size(observed.truth, observed.wrong):
        return
    for hypothesis, arithmetic in _ways():
        if explains(site, observed, (_summed(arithmetic, site), unit_of(OPS[site.place.op].truth(site)))):
            yield hypothesis


def _unseen(site: Site) -> Iterator[Hypothesis]:
    """Those of a small place without a tap."""
    if not asks_for_all() or site.values.recorded(site.place.name, site.step) is not None:
        return
    if OPS[site.place.op].at_site(site, FLOAT64).size <= _SMALL:
        yield from (hypothesis for hypothesis, _ in _ways())


def _ways() -> Iterator[tuple[Hypothesis, Arithmetic]]:
    for (type_, rounded, roundoff), first in product(_TYPES, (True, False)):
        arithmetic = _arithmetic(rounded, first=first)
        says = f"adds up its sums in {type_}" + ("" if first else ", to which it adds products of float32")
        yield Hypothesis("sum.half_precision", says, _FIX, partial(_compute, arithmetic, roundoff), RARE), arithmetic


def _size(values: Array, cells: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values[cells], dtype=np.float64))))


def _summed(arithmetic: Arithmetic, site: Site) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(OPS[site.place.op].at_site(site, arithmetic), np.float64)


def _compute(arithmetic: Arithmetic, roundoff: float, site: Site) -> Result:
    if not site.values.units:
        return _summed(arithmetic, site), np.zeros(())
    unit = unit_of(OPS[site.place.op].truth(site))
    return _summed(arithmetic, site), unit * (1 + roundoff / FLOAT32_ROUNDOFF / 4)


def _arithmetic(rounded: Rounded, *, first: bool) -> Arithmetic:
    def add(total: Array, term: Array) -> Array:
        return rounded(total + (rounded(term) if first else term))

    def matmul(a: Array, b: Array) -> Array:
        total: Array = np.zeros(())
        for k in range(a.shape[-1]):
            total = add(total, a[..., k, None] * b[..., None, k, :])
        return np.asarray(total, np.float64)

    def total(a: Array) -> Array:
        sums: Array = np.zeros(())
        for k in range(a.shape[-1]):
            sums = add(sums, a[..., k])
        return np.asarray(sums, np.float64)

    return Arithmetic(np.float64, matmul, total)
