"""The kinds of ops that a graph exported from torch is made of, in NumPy: one function an op, one table."""

from qwen3_spec.aten.numbers import FLOAT32, TRUTH, Numbers
from qwen3_spec.aten.sizes import elements
from qwen3_spec.aten.table import KERNELS, Kind, kernel_of

__all__ = ["FLOAT32", "KERNELS", "TRUTH", "Kind", "Numbers", "elements", "kernel_of"]
