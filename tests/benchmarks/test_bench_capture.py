"""What capturing every tap costs beside a bare forward of Hugging Face's Qwen3: ratios within one run.

The model has hidden 512, 8 layers and random weights; a round is a causal prefill of 128 tokens, with HF's own eager
attention on every side. A capture is timed from attaching its hooks to having every tap: in a list, or in a finished
file that was synced to disk, without digests or with SHA-256. Every turn runs all sides once, after warming up; a ratio
is the median, over the turns, of a side's time by that of the same turn's forward: a machine that changes its pace
changes both. What a recording takes besides is a pass over the finished file and a figure of its own, printed and
promised nothing: the recorder's check of its softmax, and noise floors. So is HF's own model debugger, which saves what
its hooks see as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from ratios import report
from transformers import DynamicCache, Qwen3Config
from transformers.model_debugging_utils import model_addition_debugger_context
from transformers.models.qwen3 import Qwen3ForCausalLM

from qwen3_golden import Array, Writer, pb, place, read, tensor
from qwen3_reference.caches import CACHE
from qwen3_reference.capture.models import load_reference
from qwen3_reference.capture.record import record_request
from qwen3_reference.capture.run import run_reference
from qwen3_reference.capture.softmax_check import check_softmax
from qwen3_reference.provenance import provenance
from qwen3_reference.torch_tensors import to_numpy

pytestmark = [pytest.mark.bench, pytest.mark.benchmark(group="capture")]

TOKENS, LAYERS, ROUNDS, WARM_UP = 128, 8, 31, 3
AT_MOST = {"in memory": 1.3, "to a file": 2.0, "to a file with SHA-256": 3.0}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with random weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=4096,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=False,
    )
    directory = tmp_path_factory.mktemp("capture") / "model"
    Qwen3ForCausalLM(config).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def inputs() -> dict[str, Array]:
    """One row of 128 tokens."""
    ids = np.random.default_rng(0).integers(0, 4096, (1, TOKENS))
    return {
        "input.decoder_input_ids": ids,
        "input.decoder_attention_mask": np.ones((1, TOKENS), bool),
        "input.decoder_position_ids": np.arange(TOKENS)[None],
    }


@pytest.fixture(scope="module")
def works(
    checkpoint: Path, inputs: dict[str, Array], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Callable[[], Any]]]:
    """What is timed, by name."""
    path = tmp_path_factory.mktemp("recordings") / "c.pb"
    reference = load_reference(None, checkpoint)
    bare = load_reference(None, checkpoint, attention="eager").decoder
    ids, positions = (torch.from_numpy(inputs[f"input.decoder_{n}"]) for n in ("input_ids", "position_ids"))
    case = pb.Case(name="bench/capture", mode=pb.CAUSAL, steps=[TOKENS])
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)

    @torch.no_grad()
    def forward() -> torch.Tensor:
        logits: torch.Tensor = bare(ids, position_ids=positions, use_cache=True, **{CACHE: DynamicCache()}).logits
        return logits

    def in_memory() -> list[tuple[int, str, torch.Tensor]]:
        taken: list[tuple[int, str, torch.Tensor]] = []
        run_reference(reference, inputs, [TOKENS], lambda *tap: taken.append(tap), lambda _name: True)
        return taken

    def to_file(*, digests: bool) -> Path:
        with Writer(path, digests=digests) as writer:

            def add(step: int, name: str, value: torch.Tensor) -> None:
                array, dtype = to_numpy(value)
                known = place(name, LAYERS)
                assert known is not None
                writer.add(tensor(name, array, step=step, dtype=dtype, axes=known.axes, op=known.op))

            run_reference(reference, inputs, [TOKENS], add, lambda _name: True)
            writer.finish(case, provenance("bench"), run)
        return path

    yield {
        "forward": forward,
        "in memory": in_memory,
        "to a file": lambda: to_file(digests=False),
        "to a file with SHA-256": lambda: to_file(digests=True),
    }
    torch.set_num_threads(threads)


def seconds(work: Callable[[], object]) -> float:
    """Of one round; what it leaves behind, a list of taps or a file, is freed when the clock has stopped."""
    start = perf_counter()
    left = work()
    spent = perf_counter() - start
    if isinstance(left, Path):
        left.unlink()
    del left
    return spent


def test_capturing_costs_little_beside_a_bare_forward(
    works: dict[str, Callable[[], Any]], benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = {name: value for _step, name, value in works["in memory"]()}
    assert torch.equal(taken["logits"], works["forward"]())
    assert len(taken) > LAYERS * 22
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(WARM_UP + ROUNDS):
        for name, work in works.items():
            spent = seconds(work)
            if turn >= WARM_UP:
                times[name].append(spent)
    benchmark.pedantic(works["in memory"], rounds=3)
    bare = times["forward"]
    ratios = {name: round(median(t / f for t, f in zip(times[name], bare, strict=True)), 3) for name in AT_MOST}
    report(benchmark, capsys, f"× a bare forward of {1000 * median(bare):.0f} ms", ratios, at_most=AT_MOST)


def test_the_figures_that_promise_nothing(
    works: dict[str, Callable[[], Any]],
    checkpoint: Path,
    inputs: dict[str, Array],
    tmp_path: Path,
    benchmark: BenchmarkFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(WARM_UP):
        works["forward"]()
    bare = median(seconds(works["forward"]) for _ in range(ROUNDS))
    with_floors = seconds(lambda: record_request(None, checkpoint, inputs, [TOKENS], tmp_path / "c.pb"))
    recording = read(tmp_path / "c.pb")
    assert any(item.info.HasField("floor") for item in recording)
    softmax = median(seconds(lambda: check_softmax(recording)) for _ in range(ROUNDS))
    model = load_reference(None, checkpoint, attention="eager").decoder
    ids = torch.from_numpy(inputs["input.decoder_input_ids"])

    @torch.no_grad()
    def debugger() -> None:
        with model_addition_debugger_context(model, debug_path=str(tmp_path / "debug"), do_prune_layers=False):
            model(ids)

    benchmark.pedantic(debugger, rounds=3, warmup_rounds=1)
    figures = {
        "the softmax check": round(softmax / bare, 2),
        "a capture with noise floors": round(with_floors / bare),
        "HF's debugger": round(benchmark.stats.stats.median / bare, 1),
    }
    report(benchmark, capsys, f"× a bare forward of {1000 * bare:.0f} ms", figures)
