"""Rounding units: how far one rounding may move each element of an op's output, whatever the inputs.

The unit of an op takes its inputs (and its output `y` where it is proportional to it) and is float64 of the output's
shape, evaluated on exactly these inputs. Honest float32 stays within a few units at every width, in whatever order it
sums, one term after the other included; a bug is far away. `roundoff` is half the spacing of floats at 1: 2^-24 for
float32, 2^-8 for bfloat16.
"""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Array

FLOAT32_ROUNDOFF = 2.0**-24
SMALLEST_NORMAL = 2.0**-126
"""float32's; below it an honest implementation may flush to zero, so no unit falls below it."""


def as_unit(scale: Array, roundoff: float = FLOAT32_ROUNDOFF) -> Array:
    """A number of roundoffs as an absolute unit."""
    return np.asarray(roundoff * scale + SMALLEST_NORMAL)


def magnitude(a: Array) -> Array:
    """|a| in float64."""
    return np.asarray(np.abs(FLOAT64.cast(a)))
