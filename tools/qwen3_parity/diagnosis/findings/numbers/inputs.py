"""What is right once a tap that goes in is rounded: activations of 8 or 4 bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.cells import explained, floats
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.groupings import groupings
from qwen3_parity.diagnosis.findings.numbers.steps import STEPS
from qwen3_parity.diagnosis.findings.product import Product, looked_for_once
from qwen3_parity.diagnosis.findings.structure.blocks import rounded_both
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.mistakes.rounding import EIGHT_BITS, ROUNDED

_MOST = 1 << 19
"""Elements of a tap and of what goes in, times ways to round it: more are not tried."""
_LEVELS, _SMALLEST, _COARSEST, _SCREENED = (127, 127.5, 128), np.float32(1e-30), 0.3, 4
"""What the largest size is in 8 bits; the least step; what is no rounding, of its size; outputs of a quick look."""
_INTEGERS = (
    ("8 bits with a zero point", 255, True),
    ("7 bits with a zero point", 127, True),  # whoever adds products in 16 bits
    *((f"8 bits (the largest size is {levels})", levels, False) for levels in _LEVELS),
)


def rounded_input(tap: WrongTap) -> Finding | None:
    """The truth on a rounded input is what was recorded, with the weight as it is or in 8 bits, too."""
    if floats(tap) is None:
        return None
    product = tap.product()
    fits = None if product is None or rounded_both(product) is not None else _by_calls(product)
    return _alone(tap) if fits is None else Finding(*fits)


@looked_for_once
def _by_calls(product: Product) -> tuple[str, str, float] | None:
    """An input of 8 bits, or 7, whose scale is read off each call's, and a weight of 8 bits, or as it is."""
    x, ends = product.x.astype(np.float32), product.ends
    if ends is None or np.square(product.missing).sum() > _COARSEST**2 * np.square(product.truth).sum():
        return None
    rows = np.stack((x.min(1, initial=0), x.max(1, initial=0)), 1)
    weights = [("", product.weight), *_weights(product.weight.astype(np.float32))]
    outputs = np.argsort(-np.abs(product.missing).max(0), kind="stable")[:_SCREENED]
    part = product.part(outputs=outputs)
    for words, levels, zero in _INTEGERS:
        for whose, of in (("call", ends), ("position", rows)):
            narrow = _in_integers(x, of.astype(np.float32), levels, zero=zero)
            for held, weight in weights if whose == "call" else weights[1:]:
                if part.share(x=narrow, weight=weight[outputs]) and (share := product.share(x=narrow, weight=weight)):
                    says = f"{held}its input is in {words}, a scale for each {whose}"
                    return f"structure.rounded_{'both' if held else 'inputs'}", says, share
    return None


def _weights(weight: Array) -> Iterator[tuple[str, Array]]:
    size = np.abs(weight)
    for scale, peak in (("all of it", size.max()), ("each row", size.max(1, keepdims=True))):
        for levels in _LEVELS:
            step = np.maximum(peak / np.float32(levels), _SMALLEST)
            held = np.clip(np.rint(weight * (1 / step)), -128, 127) * step
            yield f"its weight is in 8 bits (-128 to 127), a scale for {scale}; ", held.astype(np.float64)


def _in_integers(x: Array, ends: Array, levels: float, *, zero: bool) -> Array:
    """Numbers `[position, in]` as integers between their `ends`; without a `zero` point as far to both sides."""
    low, high = ends[:, :1], ends[:, 1:]
    step = np.maximum((high - low if zero else np.maximum(high, -low)) / np.float32(levels), _SMALLEST)
    shift = np.rint(-low / step) if zero else np.zeros_like(low)
    lowest, highest = (0, levels) if zero else (-128, 127)
    return np.asarray((np.clip(np.rint(x * (1 / step)) + shift, lowest, highest) - shift) * step, np.float64)


def _alone(tap: WrongTap) -> Finding | None:
    for key in dict.fromkeys(tap.reads):
        values = tap.recorded(*key)
        if values is None or values.dtype.kind != "f" or values.ndim < 2 or not np.isfinite(values).all():
            continue
        for number, (words, rounded) in enumerate(_ways(values)):
            if (number + 1) * (values.size + tap.truth.size) > _MOST:
                break
            guess = tap.again(key, rounded)
            if guess is None or guess.shape != tap.truth.shape:
                break
            if explained(tap, guess) == 1:
                says = f"it is right once {_called(key[0])} is rounded before it goes in: {words}"
                return Finding("invariant.grid", says, 1.0)
    return None


def _called(name: str) -> str:
    """The last part of a tap's name; all of it where that is a layer's number alone."""
    last = name.rpartition(".")[2]
    return name if last.isdecimal() else last


def _ways(values: Array) -> Iterator[tuple[str, Array]]:
    for name, to in (*ROUNDED, *EIGHT_BITS):
        yield name, to(values).astype(np.float64)
    peak = np.abs(values).max(axis=-1, keepdims=True)  # as exponentials are, before a softmax divides them by their sum
    by = np.where(peak > 0, peak, 1)
    for name, to in (*ROUNDED, *EIGHT_BITS):
        yield f"{name}, once each row is divided by its largest", to(values / by).astype(np.float64) * by
    for steps in STEPS:
        for grouping in groupings(values.shape):
            yield steps.words.format(grouping.words), steps.rounded(grouping, values).reshape(values.shape)
