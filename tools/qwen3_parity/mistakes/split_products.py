"""Products of float32 made of three products of bfloat16 (bf16x3), as accelerators without float32 units have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import Observed, likely
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.mistakes.rounding import bfloat16
from qwen3_spec.arithmetic import FLOAT64
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site


def three_products(site: Site, observed: Observed | None, name: str) -> Iterator[Hypothesis]:
    """Operands split into two numbers of bfloat16, the product of the two low ones left out."""
    says = "multiplies as bf16x3 does: operands are two numbers of bfloat16, and the low ones are not multiplied"
    fix = "multiply in float32, or in six products of bfloat16 (bf16x6)"
    yield from likely(site, observed, [Hypothesis(name, says, fix, _without_low, PLAIN + 1, cause="bf16x3")])


def _low(values: Array) -> Array:
    return bfloat16(values - bfloat16(values))


def _both(values: Array) -> Array:
    return bfloat16(values).astype(np.float64) + _low(values)


def _without_low(site: Site) -> Result:
    y, unit = OPS[site.place.op].truth(_with_operands(site, _both))
    low = _with_operands(site, _low)
    low = replace(low, parameters={key: value for key, value in low.parameters.items() if key != "bias"})
    return y - OPS[site.place.op].at_site(low, FLOAT64), unit


def _with_operands(site: Site, change: Callable[[Array], Array]) -> Site:
    """The site with what its op multiplies changed: inputs, and a weight."""
    parameters = {key: change(value) if key == "weight" else value for key, value in site.parameters.items()}
    return replace(site, inputs=tuple(change(value) for value in site.inputs), parameters=parameters)
