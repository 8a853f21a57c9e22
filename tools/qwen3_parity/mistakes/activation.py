"""Wrong activation functions, of the classic feed-forward alone and inside a gated one."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.generic import casts
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_spec import ops
from qwen3_spec.site import Result, Site

Function = Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _known(name: str) -> Function:
    return lambda x: ops.swiglu.forward(x, np.ones_like(x), name)


# Name and function; whether it subtracts numbers of size 1 on the way, whose rounding stays.
ACTIVATIONS: tuple[tuple[str, Function, bool], ...] = (
    ("silu", _known("silu"), False),
    ("gelu", _known("gelu"), True),
    ("gelu_tanh", _known("gelu_tanh"), True),
    ("relu", _known("relu"), False),
    ("quick_gelu (x * sigmoid(1.702 x))", lambda x: x * sigmoid(1.702 * x), False),
    ("relu squared", lambda x: np.square(np.maximum(x, 0)), False),
    ("sigmoid", sigmoid, False),
    ("tanh", np.tanh, False),
    ("mish", lambda x: x * np.tanh(_softplus(x)), False),
    ("hard_swish", lambda x: x * np.clip(x + 3, 0, 6) / 6, True),
    ("hard_sigmoid", lambda x: np.clip(x + 3, 0, 6) / 6, True),
    ("x * hard_sigmoid(0.2 x + 0.5)", lambda x: x * np.clip(0.2 * x + 0.5, 0, 1), True),
    ("softplus", _softplus, True),
    ("elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), True),
    ("selu", lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))), True),
    ("celu of 0.5", lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0) / 0.5)), True),
    ("leaky_relu of 0.01", lambda x: np.where(x > 0, x, 0.01 * x), False),
    ("leaky_relu of 0.1", lambda x: np.where(x > 0, x, 0.1 * x), False),
    ("leaky_relu of 0.2", lambda x: np.where(x > 0, x, 0.2 * x), False),
    ("relu6", lambda x: np.clip(x, 0, 6), False),
    ("laplace", lambda x: 0.5 * (1 + np.tanh(x)), True),
    ("softsign", lambda x: x / (1 + np.abs(x)), False),
    ("exp", np.exp, False),
    ("x**2", np.square, False),
    ("logsigmoid", lambda x: -_softplus(-x), True),
    ("x * tanh(x)", lambda x: x * np.tanh(x), False),
    ("tanhshrink", lambda x: x - np.tanh(x), True),
    ("sin", np.sin, False),
    ("silu without its sign turned right (x * sigmoid(-x))", lambda x: x * sigmoid(-x), False),
    ("gelu_tanh with 0.044 for 0.044715", lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044 * x**3))), True),
    ("gelu_tanh with 0.7978 for sqrt(2 / pi)", lambda x: 0.5 * x * (1 + np.tanh(0.7978 * (x + 0.044715 * x**3))), True),
    ("gelu_tanh without the cube", lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * x)), True),
    ("no activation", lambda x: x, False),
    ("abs", np.abs, False),
    # Of 2 x it is x (1 + tanh(x)) / 2 as well.
    *((f"silu of {b:g} x in its sigmoid", lambda x, b=b: x * sigmoid(b * x), b == 2) for b in (0.5, 1.5, 1.7, 2.0, 1.01, 0.99)),
)  # fmt: skip


def activation(site: Site) -> Iterator[Hypothesis]:
    """Every other activation that is known by name, and none."""
    yield from likely(site, observe(site), _activations(site))
    yield from casts(site, observe(site), "mlp.half_precision", f"act(x) with hidden_act {site.config.hidden_act}")


def _activations(site: Site) -> Iterator[Hypothesis]:
    fix = f"act(x) with hidden_act {site.config.hidden_act}"
    for name, function, cancels in ACTIVATIONS:
        yield Hypothesis("mlp.activation", f"computes {name}", fix, partial(_activated, function, cancels))
    yield Hypothesis("mlp.no_activation", "is left out", fix, lambda site: (site.inputs[0], None))


def _activated(function: Callable[[Array], Array], cancels: bool, site: Site) -> Result:
    x = np.asarray(site.inputs[0], np.float64)
    y = function(x)
    return y, ops.activation.unit(y, x, "gelu" if cancels else "relu")


MISTAKES: Mapping[str, Mistakes] = {
    "activation": Mistakes((activation,)),
}
