"""The same code on other arithmetic: numbers of threads, vector instructions, libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from detection.honest.ours import ours
from detection.honest.variation import Variation


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _flushing() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _elsewhere(name: str, says: str, variable: str, value: str) -> Variation:
    return Variation(name, says, ours(), environment={variable: value}, slow=True)


VARIATIONS = (
    Variation("threads_1", "one thread", ours(around=lambda: _threads(1))),
    Variation("threads_2", "two threads", ours(around=lambda: _threads(2))),
    Variation("denormals_flushed", "subnormal numbers are flushed to 0", ours(around=_flushing)),
    _elsewhere("kernels_default", "torch without vector instructions", "ATEN_CPU_CAPABILITY", "default"),
    _elsewhere("kernels_avx2", "torch with AVX2 alone", "ATEN_CPU_CAPABILITY", "avx2"),
    _elsewhere("blas_compatible", "MKL with its reproducible SSE2 code", "MKL_CBWR", "COMPATIBLE"),
)
