"""How fast two arrays are compared, with every metric, beside what people use: ratios within one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
from ratios import report

from qwen3_parity.judge.compare import Metrics, compare

pytestmark = [pytest.mark.bench, pytest.mark.benchmark(group="compare")]

SHAPE = (8, 16, 4096, 128)  # 64 Mi elements
AXES = ("batch", "heads", "query", "head_dim")
ROUNDS = 5
AT_LEAST = {"torch.testing.assert_close": 10, "numpy.testing.assert_allclose": 15}


@pytest.fixture(scope="module")
def arrays() -> Iterator[tuple[Any, Any]]:
    """Two float32 arrays that differ by honest noise, so that the others find them close as well."""
    draw = np.random.Generator(np.random.PCG64(1))
    expected = draw.standard_normal(SHAPE, dtype=np.float32)
    actual = draw.standard_normal(SHAPE, dtype=np.float32)
    actual *= np.float32(2e-7)
    actual *= expected
    actual += expected
    yield actual, expected


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def test_comparing_with_every_metric_beats_closeness(
    benchmark: Any, arrays: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    actual, expected = arrays
    tensors = torch.from_numpy(actual), torch.from_numpy(expected)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    others = {
        "torch.testing.assert_close": lambda: torch.testing.assert_close(*tensors),
        "numpy.testing.assert_allclose": lambda: np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6),
    }

    def ours() -> Metrics:
        return compare(actual, expected, axes=AXES)

    metrics = ours()  # warm
    assert metrics.rms > 0 and metrics.row_index and metrics.head_index
    for rival in others.values():
        rival()
    # Taking turns, so that whatever else the machine does meets all three alike.
    works: dict[str, Callable[[], object]] = {"compare": ours, **others}
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            times[name].append(seconds(work))
    torch.set_num_threads(threads)
    benchmark.pedantic(ours, rounds=3)
    medians = {name: round(median(times[name]) / median(times["compare"]), 1) for name in others}
    title = f"comparing 64 Mi elements in {1000 * median(times['compare']):.0f} ms, times as fast as"
    report(benchmark, capsys, title, medians, at_least=AT_LEAST)
