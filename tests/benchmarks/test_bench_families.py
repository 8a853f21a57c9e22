"""A model that its own graph describes: its capture beside torch's export, its diagnosis beside its check."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import torch
from ratios import report

import qwen3_parity
from qwen3_reference.graph.capture import capture
from qwen3_reference.graph.load import load
from qwen3_reference.graph.request import completed
from qwen3_reference.graph.settings import as_reference
from qwen3_reference.graph.steps import Steps
from qwen3_reference.graph.taps import Taps, watched
from qwen3_reference.graph.tiny import tiny_inputs, tiny_model

pytestmark = [pytest.mark.bench, pytest.mark.benchmark(group="families")]

FAMILY, LAYERS = "qwen3_moe", 4
SECONDS = {"a capture": 20, "a diagnosis": 3}
AT_MOST = {"a capture by torch's export": 4.0, "a diagnosis by its check": 2.0}


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def test_a_tiny_family_is_captured_and_diagnosed_in_seconds(
    benchmark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tiny_model(FAMILY, 1, {"num_hidden_layers": LAYERS}).save_pretrained(tmp_path)
    model, golden, mine = load(tmp_path), tmp_path / "golden.pb", tmp_path / "mine.pb"
    inputs, steps = tiny_inputs(model, 1)
    export = seconds(lambda: exported(model, inputs, steps))
    captured = seconds(lambda: capture(model, inputs, golden, steps=steps, checkpoint=tmp_path))
    model.model.layers[2].self_attn.scaling *= 1.1
    case = qwen3_parity.golden(golden)
    with torch.no_grad(), qwen3_parity.record(model, case, path=mine):
        model(**case.inputs)
    judged, diagnosed = (seconds(lambda verb=verb: typed(verb, golden, mine)) for verb in ("check", "diagnose"))
    benchmark.pedantic(lambda: typed("check", golden, mine), rounds=1)
    ratios = {"a capture by torch's export": captured / export, "a diagnosis by its check": diagnosed / judged}
    title = f"{FAMILY}, {LAYERS} layers: a capture {captured:.1f} s, a diagnosis {diagnosed:.1f} s"
    report(benchmark, capsys, title, ratios, at_most=AT_MOST)
    with capsys.disabled():
        print(f"hoped for at most, in seconds: {SECONDS}")


def exported(model: Any, inputs: dict[str, torch.Tensor], steps: tuple[int, ...]) -> None:
    """Export the same forwards by torch alone."""
    with as_reference(model), watched(model, Taps()):
        whole, lengths = completed(model, inputs, steps)
        torch.export.export(Steps(model, lengths, Taps()), (whole,), strict=False)


def typed(verb: str, golden: Path, mine: Path) -> None:
    command = [sys.executable, "-m", "qwen3_parity", verb, str(golden), str(mine)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
