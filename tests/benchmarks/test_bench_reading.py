"""Reading every tensor of a golden beside safetensors' memory-mapped reading and stock protobuf, on 64 Mi float32.

One round opens the file, takes every tensor as a NumPy array and sums all of its elements: what a judge does that looks
at every number once. The files hold the same arrays, were just written, and lie in the page cache, so this compares the
readers and not the disk; the sum is the same NumPy call on every side and is part of the time. Rounds of both sides
alternate within one run, after warming up, and medians are compared. safetensors is read both ways that it offers: into
torch, which maps the file and copies nothing, and into NumPy, which copies. No side verifies digests (safetensors has
none); the golden's side does include checking its counts, sizes and the digest of its metadata.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from ratios import report
from safetensors import safe_open
from safetensors.numpy import save_file

from qwen3_golden import Array, Recording, pb, read, tensor, write

pytestmark = pytest.mark.bench

ELEMENTS = 64 << 20
ROUNDS = 15
WARM_UP = 2
AT_LEAST = 0.8


@pytest.fixture(scope="module", params=[16, 512], ids="{} tensors".format)
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """The golden and the safetensors file, removed afterwards."""
    folder = tmp_path_factory.mktemp("reading")
    count = int(request.param)
    values = np.random.default_rng(0).standard_normal((count, ELEMENTS // count), dtype=np.float32)
    arrays = {f"tensor.{i}": row for i, row in enumerate(values)}
    golden, tensors_file = folder / "a.pb", folder / "a.safetensors"
    case = pb.Case(name="bench/reading", mode=pb.PLUMBING)
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER)
    write(golden, Recording(case, pb.Provenance(), run, [tensor(name, row) for name, row in arrays.items()]))
    save_file(arrays, tensors_file)
    yield golden, tensors_file
    golden.unlink()
    tensors_file.unlink()


def total(arrays: Iterator[Array]) -> float:
    """The sum of every element, and proof that all were there."""
    sums, elements = 0.0, 0
    for array in arrays:
        sums += float(np.sum(array))
        elements += array.size
    assert elements == ELEMENTS
    return sums


def golden_sum(path: Path) -> float:
    return total(item.array for item in read(path))


def safetensors_torch_sum(path: Path) -> float:
    with safe_open(path, framework="pt") as file:
        return total(file.get_tensor(name).numpy() for name in file.keys())  # noqa: SIM118


def safetensors_numpy_sum(path: Path) -> float:
    with safe_open(path, framework="numpy") as file:
        return total(file.get_tensor(name) for name in file.keys())  # noqa: SIM118


def stock_protobuf_sum(path: Path) -> float:
    message = pb.Recording.FromString(path.read_bytes())
    return total(np.frombuffer(payload, np.float32) for payload in message.payload)


def seconds(function: Callable[[Path], float], path: Path) -> float:
    start = perf_counter()
    function(path)
    return perf_counter() - start


@pytest.mark.parametrize("rival", [safetensors_torch_sum, safetensors_numpy_sum])
def test_a_golden_is_read_about_as_fast_as_safetensors(
    rival: Callable[[Path], float],
    files: tuple[Path, Path],
    benchmark: BenchmarkFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    golden, tensors_file = files
    assert golden_sum(golden) == pytest.approx(rival(tensors_file), rel=1e-4)
    theirs: list[float] = []

    def one_round_of_the_rival() -> None:
        theirs.append(seconds(rival, tensors_file))

    benchmark.pedantic(
        golden_sum, args=(golden,), setup=one_round_of_the_rival, rounds=ROUNDS, warmup_rounds=WARM_UP, iterations=1
    )
    assert len(theirs) == WARM_UP + ROUNDS
    ours = benchmark.stats.stats.median
    stock = median(seconds(stock_protobuf_sum, golden) for _ in range(3))
    ratio, stock_ratio = median(theirs[WARM_UP:]) / ours, median(theirs[WARM_UP:]) / stock
    figures = {"golden ×": ratio, "golden GB/s": 4 * ELEMENTS / ours / 1e9, "stock protobuf ×": stock_ratio}
    report(benchmark, capsys, rival.__name__, figures, at_least={"golden ×": AT_LEAST})
