"""Initialisation at real size: seeded checkpoints of Qwen3-0.6B's exact shape, made, verified, loaded, generated from.

`make slow` runs it; it needs about 5 GB of memory and 7 GB of disk, and prints what each step took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryFile

import pytest
import torch
from safetensors.torch import load_file, save_file

from qwen3_encdec.weights.files import DTYPES, stored_tensors

SOURCE_PARAMETERS, LAYERS, HIDDEN, ROWS, SENTINELS = 596_049_920, 28, 1024, 151_936, 100
RESULT_PARAMETERS = 2 * SOURCE_PARAMETERS - ROWS * HIDDEN + SENTINELS * HIDDEN
ALLOWED = 1.3
"""Peak anonymous memory of every step, as a multiple of the resulting model."""
_GENERATE = """
import sys
import torch
from transformers import AutoModelForSeq2SeqLM
import qwen3_encdec
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1], dtype="auto")
ids = torch.arange(100, 116)[None]
made = model.generate(ids, max_new_tokens=8, min_new_tokens=8, do_sample=False)
print(made.shape[1], sum(p.numel() for p in model.parameters()), model.dtype)
"""


def anonymous(process: int) -> int:
    """Bytes of anonymous memory that a process holds now; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def measured(label: str, *arguments: object) -> tuple[int, str, int]:
    """Exit code, both outputs and peak anonymous memory of a Python process of its own, sampled every 10 ms."""
    start, peak = time.perf_counter(), 0
    command = [sys.executable, *map(str, arguments)]
    with TemporaryFile("w+") as said:  # nobody reads while the memory is sampled, and a pipe may be full
        with subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, text=True) as process:
            while process.poll() is None:
                peak = max(peak, anonymous(process.pid))
                time.sleep(0.01)
        said.seek(0)
        text = said.read()
    print(f"\n{label}: {time.perf_counter() - start:.1f} s, peak {peak / 1e9:.2f} GB anonymous")
    return process.returncode, text, peak


@pytest.fixture(params=["float32", "bfloat16"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A seeded checkpoint directory of three shards, and its dtype."""
    directory = tmp_path / "qwen3-0.6b-shape"
    arguments = ("Qwen3-0.6B", directory, "--dtype", request.param, "--shards", 3)
    code, text, _ = measured("seeded", "-m", "qwen3_reference.checkpoints.seeded", *arguments)
    assert code == 0, text
    return directory, request.param


def spoil(folder: Path) -> None:
    """Change one element of the last layer's k_norm in the decoder of a saved model."""
    name = f"decoder.layers.{LAYERS - 1}.merged_attn.k_norm.weight"
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    held = load_file(folder / index[name])
    held[name][17] = -held[name][17]
    save_file(held, folder / index[name], metadata={"format": "pt"})


@pytest.mark.slow
def test_qwen3_0_6b_is_initialised_verified_and_generated_from(checkpoint: tuple[Path, str], tmp_path: Path) -> None:
    directory, dtype = checkpoint
    stored = stored_tensors(directory)
    assert len({entry.file for entry in stored.values()}) == 3
    assert sum(torch.Size(entry.shape).numel() for entry in stored.values()) == SOURCE_PARAMETERS
    assert {DTYPES[entry.dtype] for entry in stored.values()} == {getattr(torch, dtype)}
    size = RESULT_PARAMETERS * getattr(torch, dtype).itemsize
    out = tmp_path / "out"
    command = ("-m", "qwen3_parity", "weights", "initialize", "--model", directory, "--out", out, "--verify")
    code, text, peak = measured("initialize --verify", *command)
    print(f"{dtype}: {peak / size:.2f} × the model's {size / 1e9:.2f} GB")
    assert code == 0, text
    assert json.loads((out / "initialization_info.json").read_text())["verification_passed"] is True
    code, text, loading = measured("load and generate", "-c", _GENERATE, out)
    print(f"{dtype}: {loading / size:.2f} ×")
    assert (code, text.split()[-3:]) == (0, ["9", str(RESULT_PARAMETERS), f"torch.{dtype}"]), text
    assert max(peak, loading) <= ALLOWED * size
    spoil(out)
    code, text, _ = measured("--verify with one changed element", *command)
    assert code == 1
    assert f"decoder.layers.{LAYERS - 1}.merged_attn.k_norm.weight" in text
    assert "1 of 128 elements differ, first at [17]" in text
    assert json.loads((out / "initialization_info.json").read_text())["verification_passed"] is False
