"""The gated activation of the MLP."""

import math

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import At, Op, unchanged
from qwen3_spec.rounding import FLOAT32_ROUNDOFF, SMALLEST_NORMAL, as_unit, magnitude
from qwen3_spec.site import Site

_erf = np.frompyfunc(math.erf, 1, 1)


def forward(gate: Array, up: Array, hidden_act: str, *, arithmetic: Arithmetic = FLOAT64, at: At = unchanged) -> Array:
    """`act(gate) * up`, the input of down_proj; equal shapes `[batch, seq, intermediate]`.

    `hidden_act`: `silu` x sigmoid(x); `gelu` x Phi(x) with erf; `gelu_tanh` its tanh approximation (HF:
    `gelu_pytorch_tanh`); `relu`. Source: Shazeer 2020 (GLU variants), `Qwen3MLP`. No cast of HF's own, though torch
    computes half-precision activations in float32 and rounds once. Raises `ValueError` for another name.
    """
    x, up = at("gate", arithmetic.cast(gate)), at("up", arithmetic.cast(up))
    match hidden_act:
        case "silu":
            # exp of a negative number alone: neither side overflows.
            small = np.exp(-np.abs(x))
            activated = x * at("sigmoid", np.where(x >= 0, arithmetic.dtype(1), small) / (1 + small))
        case "gelu":
            activated = 0.5 * x * (1 + arithmetic.cast(_erf(x * arithmetic.dtype(math.sqrt(0.5)))))
        case "gelu_tanh":
            activated = 0.5 * x * (1 + np.tanh(arithmetic.dtype(math.sqrt(2 / math.pi)) * (x + 0.044715 * x * x * x)))
        case "relu":
            activated = np.maximum(x, 0)
        case _:
            raise ValueError(f"hidden_act {hidden_act!r} is not one of silu, gelu, gelu_tanh, relu")
    return np.asarray(at("output", at("activation", activated) * up))


def unit(y: Array, gate: Array, up: Array, hidden_act: str, *, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """`|y| (1 + |gate|)`, the exponential amplifying the gate's rounding.

    For a negative gate 1 + erf, or 1 + tanh, cancels and keeps the rounding of 1: both GELUs add `|gate up| / 2`, and
    silu, which some libraries compute as `x / 2 (1 + tanh(x / 2))`, adds half of that.
    """
    gate, up = magnitude(gate), magnitude(up)
    scale = magnitude(y) * (1 + gate)
    if hidden_act != "relu":
        scale = scale + gate * up / (4 if hidden_act == "silu" else 2)
    # A sigmoid may be flushed to zero before it is multiplied.
    return as_unit(scale, roundoff) + SMALLEST_NORMAL * gate * up


def backward(
    dy: Array, gate: Array, up: Array, hidden_act: str, *, arithmetic: Arithmetic = FLOAT64
) -> tuple[Array, Array]:
    """By the gate, `dy * up * act'(gate)`, and by up, `dy * act(gate)`."""
    dup = forward(gate, dy, hidden_act, arithmetic=arithmetic)  # linear in its second argument
    by_gate = slope(gate, hidden_act, arithmetic=arithmetic)
    return np.asarray(arithmetic.cast(dy) * arithmetic.cast(up) * by_gate), dup


def slope(x: Array, hidden_act: str, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """The derivative of the activation at x; of relu at 0 it is 0, as torch has it.

    `silu` s + x s (1 - s) with s the sigmoid; `gelu` Phi(x) + x phi(x); `gelu_tanh`, with t = tanh(a (x + b x^3)),
    (1 + t) / 2 + x (1 - t^2) a (1 + 3 b x^2) / 2. Raises `ValueError` for another name.
    """
    x = arithmetic.cast(x)
    match hidden_act:
        case "silu":
            small = np.exp(-np.abs(x))
            sigmoid, complement = (np.where(side, arithmetic.dtype(1), small) / (1 + small) for side in (x >= 0, x < 0))
            y = sigmoid + x * sigmoid * complement
        case "gelu":
            below = 0.5 * (1 + arithmetic.cast(_erf(x * arithmetic.dtype(math.sqrt(0.5)))))
            y = below + x * arithmetic.dtype(1 / math.sqrt(2 * math.pi)) * np.exp(-0.5 * x * x)
        case "gelu_tanh":
            a = arithmetic.dtype(math.sqrt(2 / math.pi))
            t = np.tanh(a * (x + 0.044715 * x * x * x))
            y = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 0.134145 * x * x)
        case "relu":
            y = np.where(x > 0, arithmetic.dtype(1), arithmetic.dtype(0))
        case _:
            raise ValueError(f"hidden_act {hidden_act!r} is not one of silu, gelu, gelu_tanh, relu")
    return np.asarray(y)


def at_site(site: Site, arithmetic: Arithmetic, at: At = unchanged) -> Array:
    """The activation of a place's gate times up."""
    gate, up = site.inputs
    return forward(gate, up, site.config.hidden_act, arithmetic=arithmetic, at=at)


def _unit_at_site(site: Site, y: Array) -> Array:
    gate, up = site.inputs
    return unit(y, gate, up, site.config.hidden_act)


def _gradient(site: Site, arithmetic: Arithmetic) -> Array:
    dy, gate, up = site.inputs
    by_gate, by_up = backward(dy, gate, up, site.config.hidden_act, arithmetic=arithmetic)
    return by_up if site.place.name.endswith("up_proj") else by_gate


def _gradient_unit(site: Site, y: Array) -> Array:
    dy, gate, up = (np.asarray(values, np.float64) for values in site.inputs)
    act = site.config.hidden_act
    if site.place.name.endswith("up_proj"):
        return unit(y, gate, dy, act)
    passed = np.abs(forward(gate, np.ones_like(gate), act)) / np.maximum(np.abs(gate), SMALLEST_NORMAL)
    steep = np.abs(slope(gate, act)) + passed
    return as_unit(np.abs(dy * up) * steep * (1 + np.abs(gate)))


STEPS = (
    "gate",
    "up",
    "sigmoid",
    "activation",
    "output",
)

OPS = (
    Op("swiglu", at_site, _unit_at_site, steps=STEPS, stored=("activation",), by_row=True),
    Op("swiglu_gradient", _gradient, _gradient_unit),
)
