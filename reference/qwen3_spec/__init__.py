"""The executable specification of the Qwen3 encoder-decoder: float64 NumPy, one function per op, no framework.

It is the truth that noise floors and blame are measured against, and short enough to port from: read `ops`, a file an
op (the arithmetic, how far rounding may move it, its gradient, how it reads its place in a network), and `sweep` (how a
table of places becomes a run: forward, and back, where the places are gradients).
"""

from qwen3_spec import ops
from qwen3_spec.arithmetic import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic
from qwen3_spec.config import SpecConfig
from qwen3_spec.ops.loss import cross_entropy
from qwen3_spec.rope_scaling import RopeScaling

__all__ = [
    "FLOAT64",
    "SEQUENTIAL_FLOAT32",
    "Arithmetic",
    "RopeScaling",
    "SpecConfig",
    "cross_entropy",
    "ops",
]
