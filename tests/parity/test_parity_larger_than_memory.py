"""Models larger than memory: what capture, check and diagnose hold of them does not grow with their depth.

Anonymous memory is what counts (RssAnon): pages of the mapped checkpoint and golden are the system's to drop.
`make slow` runs both tests; the one at the size of Qwen3-8B needs 40 GB of disk.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import pytest

from qwen3_golden import read, verify
from qwen3_golden.models import model
from qwen3_parity.recording.sizes import Lengths, expected_names
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.published import config_json
from qwen3_reference.checkpoints.seeded import write_seeded

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc: RssAnon cannot be sampled")

GB = 10**9
TINY = {
    "model_type": "qwen3",
    "vocab_size": 2048,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": False,
}
LAYER_BYTES = 4 * (1024 * 3 * 1024 + 1024 * 3 * 3072)
"""One layer of it in float32."""


@dataclass(frozen=True)
class Ran:
    """What a command took."""

    seconds: float
    anonymous: int
    text: str


def anonymous_bytes(pid: int) -> int:
    """RssAnon of a process, 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def run(*arguments: object) -> Ran:
    """A command of ours in a process of its own, its anonymous memory sampled a hundred times a second."""
    start, peak = time.perf_counter(), 0
    command = [sys.executable, "-m", "qwen3_parity", *map(str, arguments)]
    # Into files: nobody reads while the memory is sampled, and a full pipe would hold the command for ever.
    with TemporaryFile("w+") as said_file, TemporaryFile("w+") as complained_file:
        with subprocess.Popen(command, stdout=said_file, stderr=complained_file, text=True) as process:
            while process.poll() is None:
                peak = max(peak, anonymous_bytes(process.pid))
                time.sleep(0.01)
        said, complained = (file.seek(0) or file.read() for file in (said_file, complained_file))
    seconds = time.perf_counter() - start
    print(f"\n{arguments[0]}: {seconds:.1f} s, peak {peak / GB:.2f} GB anonymous")
    assert process.returncode == 0, said + complained
    return Ran(seconds, peak, said)


def ids(count: int, vocabulary: int, seed: int) -> str:
    drawn = np.random.Generator(np.random.PCG64(seed)).integers(0, vocabulary, count)
    return ",".join(map(str, drawn))


def peaks(layers: int, folder: Path, *options: str) -> tuple[int, int]:
    """The anonymous memory of a capture and of a diagnosis of a network of this depth."""
    # Another dtype than the stored one: weights that stay as they are on the disk are mapped by everybody.
    checkpoint, golden = folder / f"{layers}-layers", folder / f"{layers}.pb"
    if not checkpoint.exists():
        write_seeded(TINY | {"num_hidden_layers": layers}, checkpoint, "bfloat16", 1)
    request = ("--source-ids", ids(6, 2048, 1), "--target-ids", ids(6, 2048, 2), "--prefill", 5, "--dtype", "float32")
    captured = run("capture", "--model", checkpoint, "--out", folder / f"{layers}.pb", *request, *options)
    return captured.anonymous, run("diagnose", golden, golden, "--model", checkpoint).anonymous


@pytest.mark.slow
def test_memory_does_not_grow_with_depth(tmp_path: Path) -> None:
    shallow, deep = (peaks(layers, tmp_path, "--stream") for layers in (4, 16))
    more = 12 * LAYER_BYTES
    for name, few, many in zip(("capture", "diagnose"), shallow, deep, strict=True):
        assert many - few < 0.1 * more, f"{name}: {few / GB:.2f} GB with 4 layers, {many / GB:.2f} GB with 16"


@pytest.fixture
def qwen3_8b(tmp_path: Path) -> Iterator[Path]:
    """A seeded checkpoint of Qwen3-8B's exact shape in bfloat16, 16 GB."""
    if shutil.disk_usage(tmp_path).free < 40 * GB:
        pytest.skip("less than 40 GB of disk are free: no room for a checkpoint of Qwen3-8B's size")
    directory = tmp_path / "qwen3-8b-shape"
    write_seeded(config_json(model("Qwen3-8B").config, "bfloat16"), directory, "bfloat16", 5)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.slow
def test_qwen3_8b_is_captured_checked_and_diagnosed_in_4_gb(qwen3_8b: Path, tmp_path: Path) -> None:
    golden = tmp_path / "real.pb"
    request = ("--source-ids", ids(32, 151643, 1), "--target-ids", ids(32, 151643, 2), "--prefill", 30)
    options = ("--dtype", "bfloat16", "--stream", "--yes")
    captured = run("capture", "--model", qwen3_8b, "--out", tmp_path / "real.pb", *request, *options)
    assert captured.anonymous <= 4 * GB
    recording = read(golden)
    verify(recording)
    config = model_config(qwen3_8b)
    expected = expected_names(config, Lengths(1, 32, (30, 1, 1)))
    assert {item.info.name for item in recording} == set(expected)
    assert sum(item.info.HasField("floor") for item in recording) > 0.8 * len(recording.tensors)
    checked = run("check", golden, golden, "--json")
    verdicts = json.loads(checked.text)
    judged = sum(not item.info.name.startswith("input.") for item in recording)
    assert verdicts["verdict"] == "parity" and verdicts["compared"] == verdicts["of"] == judged
    diagnosed = run("diagnose", golden, golden, "--model", qwen3_8b)
    assert checked.anonymous <= 4 * GB and diagnosed.anonymous <= 4 * GB
