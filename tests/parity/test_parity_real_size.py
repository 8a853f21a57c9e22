"""The full road at real size: a seeded checkpoint of the exact Qwen3-0.6B shape, captured, recorded and checked.

`make slow` runs it; it needs about 8 GB of memory and 6 GB of disk, and prints what each command took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from qwen3_golden import read

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "attention_bias": False,
    "tie_word_embeddings": True,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
}


def tensors(draw: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Name and float32 values of every tensor: projections that keep the scale, norms away from 1."""

    def normal(*shape: int) -> np.ndarray:
        scale = np.float32(shape[-1] ** -0.5)
        return draw.standard_normal(shape, dtype=np.float32) * scale

    def norm(width: int) -> np.ndarray:
        return draw.uniform(0.5, 1.5, width).astype(np.float32)

    hidden, wide, heads, kv = 1024, 3072, 16 * 128, 8 * 128
    yield "model.embed_tokens.weight", normal(151936, hidden)
    for layer in range(28):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", norm(hidden)
        for name, rows in (("q", heads), ("k", kv), ("v", kv)):
            yield f"{prefix}.self_attn.{name}_proj.weight", normal(rows, hidden)
        yield f"{prefix}.self_attn.o_proj.weight", normal(hidden, heads)
        yield f"{prefix}.self_attn.q_norm.weight", norm(128)
        yield f"{prefix}.self_attn.k_norm.weight", norm(128)
        yield f"{prefix}.post_attention_layernorm.weight", norm(hidden)
        yield f"{prefix}.mlp.gate_proj.weight", normal(wide, hidden)
        yield f"{prefix}.mlp.up_proj.weight", normal(wide, hidden)
        yield f"{prefix}.mlp.down_proj.weight", normal(hidden, wide)
    yield "model.norm.weight", norm(hidden)


@pytest.fixture(params=["float32", "bfloat16"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A seeded checkpoint directory and its dtype."""
    directory = tmp_path / "qwen3-0.6b-shape"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(CONFIG | {"dtype": request.param}))
    dtype = getattr(torch, request.param)
    drawn = tensors(np.random.Generator(np.random.PCG64(6)))
    save_file({name: torch.from_numpy(values).to(dtype) for name, values in drawn}, directory / "model.safetensors")
    return directory, request.param


def run(*arguments: object) -> str:
    """A command of ours in a process of its own; prints its seconds and its peak resident memory."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "qwen3_parity", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    print(f"\n{arguments[0]}: {seconds:.1f} s, peak {usage.ru_maxrss / 1e6:.2f} GB resident")
    assert process.returncode == 0, text
    return text


SOURCE = (
    "When in the course of porting a network it becomes necessary for one people to dissolve the numerical bonds which "
    "have connected them with another, and to assume among the powers of the earth the separate and equal station to "
    "which the laws of arithmetic entitle them, a decent respect to the opinions of mankind requires that they should "
    "declare the causes: 1e-6 ≠ 1e-5."
)
TARGET = "Nous tenons ces vérités pour évidentes: 四捨五入 rounds to even."


def request_() -> tuple[object, ...]:
    """64 tokens in, and a dozen to decode: text with the real tokenizer where it is to be had, otherwise ids."""
    data = os.environ.get("QWEN3_PARITY_DATA")
    if data:
        return "--source", SOURCE, "--target", TARGET, "--tokenizer", Path(data) / "qwen3-tokenizer", "--prefill", 12
    draw = np.random.Generator(np.random.PCG64(64))
    source, target = (",".join(map(str, draw.integers(0, 151643, count))) for count in (64, 16))
    return "--source-ids", source, "--target-ids", target, "--prefill", 12


@pytest.mark.slow
def test_the_whole_road_at_the_size_of_qwen3_0_6b(checkpoint: tuple[Path, str], tmp_path: Path) -> None:
    directory, dtype = checkpoint
    run("capture", "--model", directory, "--out", tmp_path, "--name", "real", *request_(), "--dtype", dtype, "--yes")
    golden, candidate = tmp_path / "real.pb", tmp_path / "ours.pb"
    for backend in ("eager", "sdpa"):
        run("record", golden, "--model", directory, "--backend", backend, "--out", candidate)
        found = json.loads(run("check", golden, candidate, "--json"))
        print(
            f"{dtype}, {backend}: {found['verdict']}, {found['compared']} of {found['of']} taps, worst {found['worst']}"
        )
        assert found["verdict"] == "parity"
        assert found["compared"] > 28 * 2 * 20 and (found["compared"] == found["of"]) is (backend == "eager")
    inputs = read(golden)["input.encoder_input_ids", 0].array
    print(f"{inputs.shape[1]} tokens in, steps {list(read(golden).case.steps)}, {golden.stat().st_size / 1e6:.0f} MB")
    assert inputs.shape[1] >= 64
