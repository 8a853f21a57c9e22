"""Wrong gated activation: which function, of what, times what, in which type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.activation import ACTIVATIONS, Function, sigmoid
from qwen3_parity.mistakes.generic import casts, scaled
from qwen3_parity.mistakes.gradients import cut
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import Observed, factor_between, likely, observe
from qwen3_spec import ops
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, as_unit
from qwen3_spec.site import Result, Site

_CELLS = 4096
"""Wrong cells that a quick look takes: the op is made cell by cell."""
_RIGHT = "act(gate) * up with act = hidden_act"

Arranged = Callable[[Function, Array, Array], Array]
_ARRANGEMENTS: tuple[tuple[str, str, Arranged, int], ...] = (
    ("mlp.activation", "act(gate) * up", lambda f, g, u: f(g) * u, 0),
    ("mlp.gate_up_exchanged", "gate * act(up)", lambda f, g, u: f(u) * g, 0),
    ("mlp.activation_on_product", "act(gate * up)", lambda f, g, u: f(g * u), 0),
    ("mlp.activation_on_both", "act(gate) * act(up)", lambda f, g, u: f(g) * f(u), 0),
    ("mlp.no_gate", "act(up) alone", lambda f, g, u: f(u), 0),
    ("mlp.no_up", "act(gate) alone", lambda f, g, u: f(g), 0),
    ("mlp.sum", "act(gate) + up", lambda f, g, u: f(g) + u, 0),
    ("mlp.sum", "gate + act(up)", lambda f, g, u: f(u) + g, 1),
    ("mlp.sum", "act(gate + up)", lambda f, g, u: f(g + u), 1),
    ("mlp.sum", "act(gate) + act(up)", lambda f, g, u: f(g) + f(u), 1),
    ("mlp.sum", "act(gate) - up", lambda f, g, u: f(g) - u, 2),
    ("mlp.up_plus_one", "act(gate) * (up + 1)", lambda f, g, u: f(g) * (u + 1), 0),
    ("mlp.gate_plus_one", "(act(gate) + 1) * up", lambda f, g, u: (f(g) + 1) * u, 1),
    ("mlp.activation_twice", "act(act(gate)) * up", lambda f, g, u: f(f(g)) * u, 1),
    ("mlp.gate_twice", "gate * act(gate) * up", lambda f, g, u: g * f(g) * u, 1),
    ("mlp.gate_twice", "act(gate) * gate", lambda f, g, u: f(g) * g, 2),
    ("mlp.activation_on_result", "act(act(gate) * up)", lambda f, g, u: f(f(g) * u), 2),
    ("mlp.negated_gate", "act(-gate) * up", lambda f, g, u: f(-g) * u, 1),
    ("mlp.negated", "-act(gate) * up", lambda f, g, u: -f(g) * u, 1),
    ("mlp.magnitude", "act(gate) * |up|", lambda f, g, u: f(g) * np.abs(u), 3),
)  # fmt: skip


def swiglu(site: Site) -> Iterator[Hypothesis]:
    """Wrong functions, arrangements, bounds, roundings of the gated activation."""
    what = observe(site)
    part, few = (site, what) if what is None else _sampled(site, what)
    with np.errstate(all="ignore"):
        yield from likely(part, few, _formulas(site))
        yield from likely(part, few, _bounds(site, what))
        yield from casts(part, few, "mlp.half_precision", _RIGHT)
        yield from scaled(part, few, "mlp.scaled", _RIGHT)
        if what is not None:
            yield from likely(part, few, _fitted(site, part, few))
            yield from likely(site, what, _moved(site))


def _sampled(site: Site, what: Observed) -> tuple[Site, Observed]:
    """A site of a few wrong cells in one row."""
    cells = np.flatnonzero(what.wrong)
    cells = cells[:: max(1, len(cells) // _CELLS)]

    def some(values: Array) -> Array:
        return values.reshape(-1)[cells].reshape(1, 1, -1)

    unit = None if what.unit is None else some(what.unit)
    few = Observed(some(what.actual), some(what.truth), unit, np.ones((1, 1, len(cells)), bool))
    return replace(site, inputs=tuple(map(some, site.inputs))), few


def _inputs(site: Site) -> tuple[Array, Array]:
    gate, up = (np.asarray(one, np.float64) for one in site.inputs)
    return gate, up


def _unit(y: Array, g: Array, u: Array, *, cancels: bool, added: bool) -> Array:
    """As `ops.swiglu.unit`: the exponential amplifies its argument's rounding; GELU-like functions keep that of 1."""
    scale = np.abs(y) * (1 + np.abs(g))
    if cancels:
        scale = scale + np.maximum(np.abs(g), 1) * np.maximum(np.abs(u), 1) / 2
    if added:
        scale = scale + np.abs(g) + np.abs(u)
    return np.asarray(FLOAT32_ROUNDOFF * scale + 2.0**-126 * (1 + np.abs(g * u)))


def _arranged(arranged: Arranged, function: Function, cancels: bool, added: bool, site: Site) -> Result:
    g, u = _inputs(site)
    y = arranged(function, g, u)
    inner = np.maximum(np.abs(g), np.abs(u)) if arranged is not _ARRANGEMENTS[0][2] else g
    inner = np.abs(g * u) if arranged is _ARRANGEMENTS[2][2] else inner
    return y, _unit(y, inner, u, cancels=cancels, added=added)


def _formulas(site: Site) -> Iterator[Hypothesis]:
    right = site.config.hidden_act
    for (act, function, cancels), (name, shown, arranged, rank) in product(ACTIVATIONS, _ARRANGEMENTS):
        if act == right and name == "mlp.activation":
            continue
        says = f"computes {shown}" + ("" if act == right else f" with {act} for act, not {right}")
        first = "mlp.activation" if name == "mlp.activation" or act == "no activation" else name
        total = rank + (0 if act == right or name == "mlp.activation" else 2)
        compute = partial(_arranged, arranged, function, cancels, name == "mlp.sum" or "one" in name)
        yield Hypothesis(first, says, f"{_RIGHT} ({right})", compute, total)


def _truth(site: Site, g: Array, u: Array) -> tuple[Array, Array]:
    y = ops.swiglu.forward(g, u, site.config.hidden_act)
    return y, ops.swiglu.unit(y, g, u, site.config.hidden_act)


def _bounds(site: Site, what: Observed | None) -> Iterator[Hypothesis]:
    """gate, up or the result clamped: at bounds that models have, or at the largest number recorded."""
    bounds = {7.0, 10.0, 6.0, 1.0, 20.0, 5.0, 100.0, 65504.0}
    if what is not None:
        bounds |= set(_fitted_bounds(site, what))

    def clamped(bound: float, points: str, site: Site) -> Result:
        g, u = _inputs(site)
        g = np.minimum(g, bound) if "g" in points else np.clip(g, -bound, bound) if "G" in points else g
        u = np.clip(u, -bound, bound) if "u" in points else u
        y, unit = _truth(site, g, u)
        return (np.clip(y, -bound, bound), unit) if "y" in points else (y, unit)

    def open_(bound: float, site: Site) -> Result:
        """gpt-oss: x sigmoid(1.702 x) (up + 1) of clamped numbers."""
        g, u = _inputs(site)
        g, u = np.minimum(g, bound), np.clip(u, -bound, bound)
        y = g * sigmoid(1.702 * g) * (u + 1)
        return y, _unit(y, g, u, cancels=False, added=False) + FLOAT32_ROUNDOFF * np.abs(g)

    for bound, (points, text, rank) in product(
        sorted(bound for bound in bounds if bound > 0),
        (("gu", "gate and up", 1), ("Gu", "gate (both ways) and up", 1), ("g", "gate", 1), ("G", "gate (both ways)", 1),
         ("u", "up", 1), ("y", "the result", 1)),
    ):  # fmt: skip
        says = f"clamps {text} to ±{bound:g}"
        yield Hypothesis("mlp.clamped", says, f"{_RIGHT}, no bounds", partial(clamped, bound, points), rank)
    says = "computes gate * sigmoid(1.702 gate) * (up + 1) of numbers clamped to ±7"
    yield Hypothesis("mlp.clamped", says, _RIGHT, partial(open_, 7.0), 1)


def _fitted_bounds(site: Site, what: Observed) -> Iterator[float]:
    """Bounds that wrong cells tell: the largest number, up where gate is small, gate where up is."""
    yield float(np.abs(what.actual[np.isfinite(what.actual)]).max())
    g, u = (one[what.wrong] for one in _inputs(site))
    actual = what.actual[what.wrong].astype(np.float64)
    act = _truth(site, g, np.ones_like(g))[0]
    low = (g < 0) & (act != 0)
    if low.any():
        yield _shared(np.abs(actual[low] / act[low]))
    high = (g > 0) & (np.abs(u) < 1) & (u != 0)
    if high.any():
        kept = _shared(actual[high] / u[high])
        yield float(np.interp(kept, _truth(site, _GRID, np.ones_like(_GRID))[0], _GRID))


_GRID = np.linspace(0, 100, 1_000_001)


def _shared(values: Array) -> float:
    """The median, rounded as a written bound would be when it is close to that."""
    middle = float(np.median(values))
    return round(middle, 3) if abs(middle - round(middle, 3)) < 1e-5 else middle


def _fitted(site: Site, small: Site, few: Observed | None) -> Iterator[Hypothesis]:
    """Numbers that the wrong cells tell: what is added to up, the slope inside the sigmoid."""
    assert few is not None
    g, u = _inputs(small)
    truth, actual = few.truth, few.actual.astype(np.float64)
    act = _truth(small, g, np.ones_like(g))[0]
    offset = factor_between(act, actual - truth)

    def shifted(site: Site) -> Result:
        g, u = _inputs(site)
        y, unit = _truth(site, g, u + offset)
        return y, unit + np.abs(_truth(site, g, u)[0]) * FLOAT32_ROUNDOFF

    yield Hypothesis("mlp.up_plus_one", f"adds {offset:.7g} to up", _RIGHT, shifted, 2)
    if site.config.hidden_act == "silu":
        yield from _slope(g, u, actual)


def _slope(g: Array, u: Array, actual: Array) -> Iterator[Hypothesis]:
    gate = actual / (g * u)
    good = (gate > 0.02) & (gate < 0.98) & (np.abs(g) > 0.1)
    if not good.any():
        return
    slope = float(np.median((np.log(gate) - np.log1p(-gate))[good] / g[good]))

    def compute(site: Site) -> Result:
        g, u = _inputs(site)
        y = g * sigmoid(slope * g) * u
        return y, _unit(y, g, u, cancels=False, added=False)

    yield Hypothesis("mlp.activation", f"computes gate * sigmoid({slope:.7g} gate) * up", _RIGHT, compute, 2)


def _moved(site: Site) -> Iterator[Hypothesis]:
    """up (or gate) of other tokens or channels than the other one's."""

    def compute(which: int, by: int, axis: int, site: Site) -> Result:
        inputs = list(_inputs(site))
        inputs[which] = np.roll(inputs[which], by, axis)
        return _truth(site, inputs[0], inputs[1])

    for which, by, axis in product((0, 1), (1, -1), (0, 1, 2)):
        what, along = ("gate", "up")[which], ("batch row", "token", "channel")[axis]
        says = f"takes {what} of the {along} {'before' if by > 0 else 'behind'}"
        yield Hypothesis(f"mlp.{what}_shifted", says, _RIGHT, partial(compute, which, by, axis), 2)


def gradient(site: Site) -> Iterator[Hypothesis]:
    """The gate's derivative taken for act(x) / x."""
    if not site.place.name.endswith("gate_proj"):
        return
    says, fix = "takes the sigmoid of silu for a constant", "silu'(x) = s + x s (1 - s), s the sigmoid of x"
    yield Hypothesis("gradient.activation_slope", says, fix, _slope_cut)


def _slope_cut(site: Site) -> Result:
    dy, gate, up = (np.asarray(one, np.float64) for one in site.inputs)
    near = np.where(gate == 0, 1.0, gate)
    y = dy * up * np.where(gate == 0, 0.5, ops.swiglu.forward(near, np.ones_like(gate), site.config.hidden_act) / near)
    return y, as_unit(np.abs(y) * (4 + np.abs(gate)))


MISTAKES: Mapping[str, Mistakes] = {
    "swiglu": Mistakes((swiglu,)),
    "swiglu_gradient": Mistakes((gradient, cut)),
}
