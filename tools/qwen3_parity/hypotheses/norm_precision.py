"""RMSNorm with a narrower type somewhere on the way."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.observed import narrowed
from qwen3_parity.hypotheses.rounding import ROUNDED
from qwen3_spec import ops
from qwen3_spec.heads import split_heads
from qwen3_spec.site import Result, Site

Rounded = Callable[[Array], Array]


def _exact(values: Array) -> Array:
    return values


def half_precision(fix: str) -> Iterator[Hypothesis]:
    """Each point at which a port may cast, in each narrower type."""
    for what, r in ROUNDED:
        points: tuple[tuple[str, dict[str, Rounded], int], ...] = (
            ("rounds its input to {}", {"x": r, "summed": r}, 1),
            ("takes its statistics of an input in {}", {"summed": r}, 2),
            ("squares in {}", {"summed": r, "square": r}, 2),
            ("keeps the mean square in {}", {"mean": r}, 2),
            ("squares and averages in {}", {"summed": r, "square": r, "mean": r}, 2),
            ("keeps the reciprocal root in {}", {"root": r}, 2),
            ("rounds the normalised row to {} before the weight", {"hat": r}, 2),
            ("rounds its weight to {}", {"weight": r}, 2),
            ("rounds its output to {}", {"y": r}, 2),
            ("rounds the normalised row and its output to {}", {"hat": r, "y": r}, 2),
            ("is computed in {} throughout", dict.fromkeys(("x", "summed", "square", "mean", "root", "hat", "weight", "y"), r), 1),
            ("is computed in {} behind the statistics", dict.fromkeys(("root", "hat", "weight", "y"), r), 2),
            ("is computed in {} up to the weight", dict.fromkeys(("x", "summed", "square", "mean", "root", "hat"), r), 2),
        )  # fmt: skip
        for says, casts, rank in points:
            yield Hypothesis("norm.half_precision", says.format(what), f"{fix}, in float32", _cast_at(casts), rank)
    yield Hypothesis(
        "norm.weight_before_cast",
        "multiplies by the weight before it casts to the stream's type",
        "weight * x_hat.to(dtype): cast the normalised row first",
        _cast_at({}),
        3,
    )


def _cast_at(casts: dict[str, Rounded]) -> Callable[[Site], Result]:
    def compute(site: Site) -> Result:
        given = site.inputs[0]
        given = split_heads(given, site.config.head_dim) if site.place.op == "head_norm" else given
        at = {point: casts.get(point, _exact) for point in ("x", "summed", "square", "mean", "root", "hat", "weight")}
        x, summed = (np.asarray(at[point](given), np.float64) for point in ("x", "summed"))
        square = np.asarray(at["square"](summed * summed), np.float64)
        mean = np.asarray(at["mean"](square.mean(axis=-1, keepdims=True)), np.float64)
        root = np.asarray(at["root"](1 / np.sqrt(mean + site.config.rms_norm_eps)), np.float64)
        weight = np.asarray(at["weight"](site.parameters["weight"]), np.float64)
        hat = x * root
        if "hat" in casts:
            hat, unit = narrowed(hat, ops.rms_norm.unit(hat, x), casts["hat"])
            y, unit = weight * hat, np.abs(weight) * unit
        else:
            y = weight * hat
            unit = ops.rms_norm.unit(y, x)
        return narrowed(y, unit, casts["y"]) if "y" in casts else (y, unit)

    return compute
