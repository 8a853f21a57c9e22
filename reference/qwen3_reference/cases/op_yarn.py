"""The op tier: RoPE stretched by YaRN."""

from __future__ import annotations

import torch
from transformers.models.qwen3 import Qwen3Config
from transformers.models.qwen3 import modeling_qwen3 as hf

from qwen3_reference.cases.op_case import OpCase
from qwen3_spec import RopeScaling, ops

_QWEN3 = RopeScaling("yarn", 4.0, 32768, 1.2)
_FRACTIONS = RopeScaling("yarn", 8.0, 4096, 1.07, beta_fast=24.0, beta_slow=1.5, truncate=False)


def _rotary(head_dim: int, theta: float, scaling: RopeScaling) -> hf.Qwen3RotaryEmbedding:
    parameters = {"rope_type": "yarn", **scaling.numbers(), "rope_theta": theta}
    length = int(scaling.factor * scaling.original_max_position_embeddings)
    config = Qwen3Config(head_dim=head_dim, max_position_embeddings=length, rope_parameters=parameters)
    return hf.Qwen3RotaryEmbedding(config)


def _frequencies(name: str, text: str, head_dim: int, theta: float, scaling: RopeScaling) -> OpCase:
    numbers = {field: float(value) for field, value in scaling.numbers().items()}
    return OpCase(
        name,
        "inv_freq",
        text,
        (),
        (_rotary(head_dim, theta, scaling).get_buffer("inv_freq").clone(),),
        {"head_dim": float(head_dim), "theta": theta, **numbers},
        ("ROP-09", "ROP-10"),
    )


def _tables() -> OpCase:
    rotary = _rotary(10, 250000.0, _QWEN3)
    positions = torch.tensor([[0, 1, 2, 255, 256, 257, 1000], [4095, 32767, 32768, 100_000, 131_071, 5, 5]])
    inv_freq = torch.from_numpy(ops.inv_freq.forward(10, 250000.0, _QWEN3)).float()  # given, so not by a kernel
    rotary.inv_freq = torch.nn.Buffer(inv_freq, persistent=False)
    return OpCase(
        "rope_table_yarn",
        "rope_table",
        "Positions 0 to 131071, an attention factor that is stated.",
        (positions, inv_freq),
        rotary(torch.zeros(1), positions),
        {"attention_factor": _QWEN3.attention_factor},
        ("ROP-12", "ROP-13", "ROP-14"),
    )


def yarn_cases() -> list[OpCase]:
    """Frequencies as Qwen3 documents them, frequencies with other numbers and a ramp between fractions, tables."""
    return [
        _frequencies("inv_freq_yarn", "Qwen3's scaling to 131072 positions.", 128, 1e6, _QWEN3),
        _frequencies("inv_freq_fractions_yarn", "A ramp that ends between pairs.", 10, 250000.0, _FRACTIONS),
        _tables(),
    ]
