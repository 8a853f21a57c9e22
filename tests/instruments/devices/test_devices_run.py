"""The committed cases on another device: what `make cuda` runs, as far as a processor can show it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from detection.devices.command import devices
from detection.devices.tf32 import in_tf32, rounded
from detection.honest.ours import ours
from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.check import check_run
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.record import record

GOLDEN = GOLDEN_ROOT / "cases" / "encoder" / "window_odd.pb"


def run(out: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(devices, ["--out", str(out), *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_without_an_accelerator_nothing_runs_and_nothing_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: None)
    assert run(tmp_path) == (
        0,
        "no accelerator is at hand, so nothing was run; --device cpu runs the same on the processor\n",
    )


def test_a_named_device_runs_our_model_and_hugging_faces(tmp_path: Path) -> None:
    ways = ("--way", "ours eager", "--way", "transformers eager")
    code, text = run(tmp_path, "--device", "cpu", "--only", "decoder/plain", *ways)
    rows = [line.split() for line in text.splitlines() if "float32" in line]
    assert code == 0 and [row[:5] for row in rows] == [
        ["ours", "eager", "float32", "1", "1"],
        ["transformers", "eager", "float32", "1", "1"],
    ]


def test_a_kernel_that_refuses_is_no_run_and_says_why(tmp_path: Path) -> None:
    ways = ("--way", "ours sdpa cudnn_attention")
    code, text = run(tmp_path, "--device", "cpu", "--only", "encoder/window_odd", *ways)
    assert code == 1 and "ours sdpa cudnn_attention: not run: " in text


def test_an_unknown_way_is_refused(tmp_path: Path) -> None:
    code, text = run(tmp_path, "--device", "cpu", "--way", "ours by hand")
    assert code == 2 and "no such way: ours by hand" in text


def test_tf32_keeps_ten_bits_and_rounds_ties_to_even() -> None:
    step = 2.0**-10
    numbers = np.float32([1, 1 + step / 2, 1 + 1.5 * step, -1 - 0.75 * step, 1e-42, np.inf, np.nan])
    expected = np.float32([1, 1, 1 + 2 * step, -1 - step, 0, np.inf, np.nan])
    np.testing.assert_allclose(rounded(numbers), expected, rtol=0, atol=1e-41)


def _narrow(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def product(a: torch.Tensor, b: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
        return function(*(torch.from_numpy(rounded(one.detach().numpy())) for one in (a, b)), *rest, **options)

    return product


def test_products_in_tf32_are_no_parity_in_float32_and_within_tf32s_budget(tmp_path: Path) -> None:
    owners = ((torch.nn.functional, "linear"), (torch, "matmul"))
    patches = tuple((owner, name, _narrow(getattr(owner, name))) for owner, name in owners)
    golden, file = read(GOLDEN), tmp_path / "tf32.pb"
    record(golden, file, ours(lambda _runner: patches)(torch.float32))
    plain = check_run(golden, read(file))
    narrow = check_run(in_tf32(golden, weights_of(golden, GOLDEN_ROOT / "checkpoints")), read(file))
    assert plain.exit_code == 1 and plain.worst is not None and plain.worst.share > 10
    assert not narrow.problems and narrow.worst is not None and narrow.worst.share > 0.01
