"""Wrong activation functions, of the classic feed-forward alone and inside a gated one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.formulas import on_inputs, rows
from qwen3_parity.mistakes.generic import casts
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec.site import Site

Function = Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asanyarray(np.where(x >= 0, 1, small) / (1 + small))


def _softplus(x: Array) -> Array:
    return np.asanyarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


_erf = np.frompyfunc(math.erf, 1, 1)


def _gelu(x: Array) -> Array:
    return np.asanyarray(0.5 * x * (1 + np.asanyarray(_erf(x * math.sqrt(0.5)), np.float64)))


def gelu_tanh(x: Array, scale: float = math.sqrt(2 / math.pi), cube: float = 0.044715) -> Array:
    """GELU by tanh, 0.5 x (1 + tanh(scale (x + cube x³)))."""
    return np.asanyarray(0.5 * x * (1 + np.tanh(scale * (x + cube * x**3))))


ACTIVATIONS: Sequence[tuple[str, Function]] = [
    # By tanh, as some libraries have it: 1 + tanh cancels for a negative x and keeps the rounding of 1.
    ("silu", lambda x: 0.5 * x * (1 + np.tanh(0.5 * x))),
    ("gelu", _gelu),
    ("gelu_tanh", gelu_tanh),
    ("relu", lambda x: np.maximum(x, 0)),
    ("quick_gelu (x * sigmoid(1.702 x))", lambda x: x * sigmoid(1.702 * x)),
    ("relu squared", lambda x: np.square(np.maximum(x, 0))),
    ("sigmoid", sigmoid),
    ("tanh", np.tanh),
    ("mish", lambda x: x * np.tanh(_softplus(x))),
    ("hard_swish", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("hard_sigmoid", lambda x: np.clip(x + 3, 0, 6) / 6),
    ("x * hard_sigmoid(0.2 x + 0.5)", lambda x: x * np.clip(0.2 * x + 0.5, 0, 1)),
    ("softplus", _softplus),
    ("elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    ("selu", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))),
    ("celu of 0.5", lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0) / 0.5))),
    ("leaky_relu of 0.01", lambda x: np.where(x > 0, x, 0.01 * x)),
    ("leaky_relu of 0.1", lambda x: np.where(x > 0, x, 0.1 * x)),
    ("leaky_relu of 0.2", lambda x: np.where(x > 0, x, 0.2 * x)),
    ("relu6", lambda x: np.clip(x, 0, 6)),
    ("laplace", lambda x: 0.5 * (1 + np.tanh(x))),
    ("softsign", lambda x: x / (1 + np.abs(x))),
    ("exp", np.exp),
    ("x**2", np.square),
    ("logsigmoid", lambda x: -_softplus(-x)),
    ("x * tanh(x)", lambda x: x * np.tanh(x)),
    ("tanhshrink", lambda x: x - np.tanh(x)),
    ("sin", np.sin),
    ("silu without its sign turned right (x * sigmoid(-x))", lambda x: x * sigmoid(-x)),
    ("gelu_tanh with 0.044 for 0.044715", lambda x: gelu_tanh(x, cube=0.044)),
    ("gelu_tanh with 0.7978 for sqrt(2 / pi)", lambda x: gelu_tanh(x, scale=0.7978)),
    ("gelu_tanh without the cube", lambda x: gelu_tanh(x, cube=0)),
    ("no activation", lambda x: x),
    ("abs", np.abs),
    *((f"silu of {b:g} x in its sigmoid", lambda x, b=b: x * sigmoid(b * x)) for b in (0.5, 1.5, 1.7, 2.0, 1.01, 0.99)),
]  # fmt: skip


def activation(site: Site) -> Iterator[Hypothesis]:
    """Every other activation that is known by name, and none."""
    observed, fix = observe(site), f"act(x) with hidden_act {site.config.hidden_act}"
    known = (("activation", f"computes {name}", PLAIN, on_inputs(function)) for name, function in ACTIVATIONS)
    yield from likely(site, observed, rows("mlp", fix, known))
    none = Hypothesis("mlp.no_activation", "is left out", fix, lambda site: (site.inputs[0], None))
    yield from likely(site, observed, [none])
    yield from casts(site, observed, "mlp.half_precision", fix)


MISTAKES: Mapping[str, Mistakes] = {
    "activation": Mistakes((activation,)),
}
