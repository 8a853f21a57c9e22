"""A third family end to end: Llama 3's goldens judge Hugging Face's own fused run, and name what a port gets wrong.

It runs `mistakes.llama3`, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from click.testing import CliRunner
from transformers.models.llama import modeling_llama
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pattern_of, pb, read, tensor
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.diagnosis.diagnose import diagnose
from qwen3_reference.capture.models import load_reference
from qwen3_reference.capture.run import run_reference

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
CASES = ["llama/ragged_decode", "llama/beyond_original", "llama/plain"]
STATED = {"factor": 3.0, "low_freq_factor": 1.25, "high_freq_factor": 9.0, "original_max_position_embeddings": 256}


def golden_of(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb", digests=True)


def candidate(
    golden: Recording,
    attention: str | None = None,
    change: Callable[[Any], None] = lambda model: None,
    directory: Path | None = None,
) -> Recording:
    """Hugging Face's model, changed, on the golden's inputs: every tap that the run shows."""
    directory = directory or CHECKPOINTS / golden.case.checkpoint[0].name
    reference = load_reference(None, directory, attention=attention)
    change(reference.decoder)
    inputs = {t.info.name: t.array for t in golden if t.info.name.startswith("input.")}
    taps: list[Tensor] = [t for t in golden if t.info.name in inputs]

    def keep(step: int, name: str, value: torch.Tensor) -> None:
        info = golden[name, step].info
        taps.append(tensor(name, value.numpy().copy(), step=step, axes=info.axes, op=info.op))

    run_reference(reference, inputs, golden.case.steps, keep)
    shown = sorted({pattern_of(item.info.name) for item in taps} - set(inputs))
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=shown)
    return replace(golden, run=run, tensors=taps, parameters=[])


@pytest.mark.parametrize("name", CASES)
def test_hugging_faces_fused_attention_is_in_parity(name: str) -> None:
    golden = golden_of(name)
    verdicts = check(golden, candidate(golden, "sdpa"))
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    assert verdicts.compared > 0.6 * verdicts.of


def frequencies(**numbers: float) -> Callable[[Any], None]:
    """RoPE by Hugging Face's own code from another configuration."""

    def change(model: Any) -> None:
        config = type(model.config).from_dict(model.config.to_dict())
        config.rope_parameters = {"rope_type": "llama3", "rope_theta": 100.0, **STATED, **numbers}
        model.model.rotary_emb = LlamaRotaryEmbedding(config)

    return change


def plain_rope(model: Any) -> None:
    config = type(model.config).from_dict(model.config.to_dict())
    config.rope_parameters = {"rope_type": "default", "rope_theta": 100.0}
    model.model.rotary_emb = LlamaRotaryEmbedding(config)


def inverted(model: Any) -> None:
    rotary, scaled = model.model.rotary_emb, model.model.rotary_emb.inv_freq.clone()
    plain = 1 / 100.0 ** (torch.arange(5) / 5)
    turns = 256 * plain / (2 * math.pi)
    between = (turns > 1.25) & (turns < 9)
    kept = (turns - 1.25) / (9 - 1.25)
    rotary.inv_freq = torch.where(between, plain * (1 - kept) + plain / 3 * kept, scaled)


def qk_norm(model: Any) -> None:
    """What a port of Qwen3 leaves in: heads are normed before they turn, by weights of 1 that no checkpoint filled."""
    for layer in model.model.layers:
        attend = layer.self_attn.forward
        layer.self_attn.forward = partial(with_norm, attend)


def with_norm(attend: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    def rotated(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        return apply_rotary_pos_emb(normed(q), normed(k), cos, sin)

    with patch.object(modeling_llama, "apply_rotary_pos_emb", rotated):
        return attend(*args, **kwargs)


def normed(heads: torch.Tensor) -> torch.Tensor:
    return heads * torch.rsqrt(heads.pow(2).mean(-1, keepdim=True) + 1e-5)


def bias(model: Any) -> None:
    """What a port of Qwen2 leaves in: biases that no checkpoint filled."""
    draw = torch.Generator().manual_seed(5)
    for layer in model.model.layers:
        layer.self_attn.q_proj.bias = torch.nn.Parameter(torch.randn(60, generator=draw))


MISTAKES: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "scaling not used": (plain_rope, "decoder.inv_freq", "llama3.ignored"),
    "another factor": (frequencies(factor=8.0), "decoder.inv_freq", "llama3.factor"),
    "factor 32": (frequencies(factor=32.0), "decoder.inv_freq", "llama3.factor"),
    "published bands": (frequencies(low_freq_factor=1.0, high_freq_factor=4.0), "decoder.inv_freq", "llama3.bands"),
    "another length": (
        frequencies(original_max_position_embeddings=1000),
        "decoder.inv_freq",
        "llama3.original_length",
    ),
    "ramp turned round": (inverted, "decoder.inv_freq", "llama3.inverted"),
    "biases left in": (bias, "decoder.layers.{layer}.merged_attn.q_proj", "weight.extra_bias"),
    "QK-norm left in": (qk_norm, "decoder.layers.{layer}.merged_attn.q_rope", "rope.extra_norm"),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("what", MISTAKES)
def test_what_a_port_gets_wrong_is_blamed_and_named(what: str) -> None:
    change, place, name = MISTAKES[what]
    golden = golden_of("llama/ragged_decode")
    made = candidate(golden, change=change)
    verdicts = check(golden, made)
    assert verdicts.exit_code == 1
    diagnosis = diagnose(golden, made, weights_of(golden, CHECKPOINTS))
    places = {pattern for fault in diagnosis.faults for pattern in fault.places}
    assert places == ({place, place.replace("q_rope", "k_rope")})
    assert {fault.name for fault in diagnosis.faults} == {name}


def test_a_users_llama_is_captured_and_judged(tmp_path: Path) -> None:
    request = ["--target-ids", "5,6,7,8;9,10,11", "--prefill", "2", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, ["capture", "--model", str(CHECKPOINTS / "llama3"), *request])
    assert done.exit_code == 0, done.output
    golden = read(tmp_path / "request.pb")
    assert (golden.case.mode, golden.case.config.rope_scaling.rope_type) == (pb.CAUSAL, "llama3")
    assert check(golden, candidate(golden, "sdpa", directory=CHECKPOINTS / "llama3")).exit_code == 0
