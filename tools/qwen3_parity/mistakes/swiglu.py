"""Wrong gated activation: which function, of what, times what, in which type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.activation import ACTIVATIONS, Function, sigmoid
from qwen3_parity.mistakes.fitting import fitted, sampled, shifted
from qwen3_parity.mistakes.formulas import Wrong, inputs, on_inputs, rows
from qwen3_parity.mistakes.gate_up_order import layouts, order
from qwen3_parity.mistakes.generic import casts, scaled
from qwen3_parity.mistakes.gradients import cut
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_spec import ops
from qwen3_spec.rounding import as_unit
from qwen3_spec.site import Result, Site

_RIGHT = "act(gate) * up with act = hidden_act"

Arranged = Callable[[Function, Array, Array], Array]
_ARRANGEMENTS: tuple[tuple[str, str, Arranged, Rank], ...] = (
    ("activation", "act(gate) * up", lambda f, g, u: f(g) * u, PLAIN),
    ("gate_up_exchanged", "gate * act(up)", lambda f, g, u: f(u) * g, PLAIN),
    ("activation_on_product", "act(gate * up)", lambda f, g, u: f(g * u), PLAIN),
    ("activation_on_both", "act(gate) * act(up)", lambda f, g, u: f(g) * f(u), PLAIN),
    ("no_gate", "act(up) alone", lambda f, g, u: f(u), PLAIN),
    ("no_up", "act(gate) alone", lambda f, g, u: f(g), PLAIN),
    ("sum", "act(gate) + up", lambda f, g, u: f(g) + u, PLAIN),
    ("sum", "gate + act(up)", lambda f, g, u: f(u) + g, PLAIN + 1),
    ("sum", "act(gate + up)", lambda f, g, u: f(g + u), PLAIN + 1),
    ("sum", "act(gate) + act(up)", lambda f, g, u: f(g) + f(u), PLAIN + 1),
    ("sum", "act(gate) - up", lambda f, g, u: f(g) - u, RARE),
    ("up_plus_one", "act(gate) * (up + 1)", lambda f, g, u: f(g) * (u + 1), PLAIN),
    ("gate_plus_one", "(act(gate) + 1) * up", lambda f, g, u: (f(g) + 1) * u, PLAIN + 1),
    ("activation_twice", "act(act(gate)) * up", lambda f, g, u: f(f(g)) * u, PLAIN + 1),
    ("gate_twice", "gate * act(gate) * up", lambda f, g, u: g * f(g) * u, PLAIN + 1),
    ("gate_twice", "act(gate) * gate", lambda f, g, u: f(g) * g, RARE),
    ("activation_on_result", "act(act(gate) * up)", lambda f, g, u: f(f(g) * u), RARE),
    ("negated_gate", "act(-gate) * up", lambda f, g, u: f(-g) * u, PLAIN + 1),
    ("negated", "-act(gate) * up", lambda f, g, u: -f(g) * u, PLAIN + 1),
    ("magnitude", "act(gate) * |up|", lambda f, g, u: f(g) * np.abs(u), RARE + 1),
)  # fmt: skip


Bounded = Callable[[float, Array, Array], tuple[Array, Array]]
_BOUNDED: tuple[tuple[str, Bounded | None], ...] = (
    ("gate and up", lambda b, g, u: (np.minimum(g, b), np.clip(u, -b, b))),
    ("gate (both ways) and up", lambda b, g, u: (np.clip(g, -b, b), np.clip(u, -b, b))),
    ("gate", lambda b, g, u: (np.minimum(g, b), u)),
    ("gate (both ways)", lambda b, g, u: (np.clip(g, -b, b), u)),
    ("up", lambda b, g, u: (g, np.clip(u, -b, b))),
    ("the result", None),
)


def swiglu(site: Site) -> Iterator[Hypothesis]:
    """Wrong functions, arrangements, bounds, roundings of the gated activation."""
    observed, hidden_act = observe(site), site.config.hidden_act
    part, few = (site, observed) if observed is None else sampled(site, observed)
    act = dict(ACTIVATIONS)[hidden_act]
    with np.errstate(all="ignore"):
        yield from likely(part, few, rows("mlp", f"{_RIGHT} ({hidden_act})", _formulas(hidden_act)))
        yield from likely(part, few, rows("mlp", f"{_RIGHT}, no bounds", _bounds(act)))
        yield from likely(part, few, layouts(act, site.inputs[0].shape[-1]))
        yield from casts(part, few, "mlp.half_precision", _RIGHT)
        yield from scaled(part, few, "mlp.scaled", _RIGHT)
        if observed is None:
            return
        largest = float(np.abs(observed.actual[np.isfinite(observed.actual)]).max())
        for text, bounded in _BOUNDED:
            starts = (0.5, 2.0, 8.0, 50.0) if bounded else (largest,)
            yield from fitted(site, observed, "mlp.clamped", f"{_RIGHT}, no bounds", partial(_says_bound, text),
                              partial(_clamped, act, bounded), *((start,) for start in starts),
                              rank=PLAIN + 1)  # fmt: skip
        yield from fitted(site, observed, "mlp.up_plus_one", _RIGHT, "adds {:.7g} to up".format,
                          lambda c, s: on_inputs(lambda g, u: act(g) * (u + c))(s), (0.5,))  # fmt: skip
        yield from fitted(site, observed, "mlp.activation", _RIGHT, "computes gate * sigmoid({:.7g} gate) * up".format,
                          lambda b, s: on_inputs(lambda g, u: g * sigmoid(b * g) * u)(s), (1.0,), (1.7,))  # fmt: skip
        yield from order(act, site, observed)
        yield from likely(site, observed, shifted(site, ("mlp.gate_shifted", "mlp.up_shifted"), ("gate", "up"), _RIGHT))


def _formulas(hidden_act: str) -> Iterator[tuple[str, str, Rank, Wrong]]:
    for (act, function), (name, shown, arranged, rank) in product(ACTIVATIONS, _ARRANGEMENTS):
        if act == hidden_act and name == "activation":
            continue
        says = f"computes {shown}" + ("" if act == hidden_act else f" with {act} for act, not {hidden_act}")
        other_act = act != hidden_act and name != "activation"
        first = "activation" if act == "no activation" else name
        yield first, says, rank + 2 * other_act, on_inputs(partial(arranged, function))


def _says_bound(text: str, bound: float) -> str:
    return f"clamps {text} to ±{bound:g}"


def _bounds(act: Function) -> Iterator[tuple[str, str, Rank, Wrong]]:
    """Clamped at bounds that models have."""
    for bound, (text, bounded) in product((1.0, 5.0, 6.0, 7.0, 10.0, 20.0, 100.0, 65504.0), _BOUNDED):
        yield "clamped", _says_bound(text, bound), PLAIN + 1, partial(_clamped, act, bounded, bound)

    def gpt_oss(g: Array, u: Array) -> Array:
        g, u = np.minimum(g, 7.0), np.clip(u, -7.0, 7.0)
        return np.asanyarray(g * sigmoid(1.702 * g) * (u + 1))

    says = "computes gate * sigmoid(1.702 gate) * (up + 1) of numbers clamped to ±7"
    yield "clamped", says, PLAIN + 1, on_inputs(gpt_oss)


def _clamped(act: Function, bounded: Bounded | None, bound: float, site: Site) -> Array:
    g, u = inputs(site)
    if bounded is None:
        return np.asanyarray(np.clip(act(g) * u, -bound, bound))
    g, u = bounded(bound, g, u)
    return np.asanyarray(act(g) * u)


def gradient(site: Site) -> Iterator[Hypothesis]:
    """The gate's derivative taken for act(x) / x."""
    if not site.place.name.endswith("gate_proj"):
        return
    says, fix = "takes the sigmoid of silu for a constant", "silu'(x) = s + x s (1 - s), s the sigmoid of x"
    yield Hypothesis("gradient.activation_slope", says, fix, _slope_cut)


def _slope_cut(site: Site) -> Result:
    dy, gate, up = (np.asarray(value, np.float64) for value in site.inputs)
    near = np.where(gate == 0, 1.0, gate)
    y = dy * up * np.where(gate == 0, 0.5, ops.swiglu.forward(near, np.ones_like(gate), site.config.hidden_act) / near)
    return y, as_unit(np.abs(y) * (4 + np.abs(gate)))


MISTAKES: Mapping[str, Mistakes] = {
    "swiglu": Mistakes((swiglu,)),
    "swiglu_gradient": Mistakes((gradient, cut)),
}
