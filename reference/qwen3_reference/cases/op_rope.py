"""The op tier: RoPE, plain and stretched by YaRN."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers.models.qwen3 import Qwen3Config
from transformers.models.qwen3 import modeling_qwen3 as hf

from qwen3_reference.cases.op_case import OpCase
from qwen3_spec import RopeScaling, ops

_QWEN3 = RopeScaling("yarn", 4.0, 32768, 1.2)
_FRACTIONS = RopeScaling("yarn", 8.0, 4096, 1.07, beta_fast=24.0, beta_slow=1.5, truncate=False)
_THETA = 250000.0


def _rotary(head_dim: int, theta: float, scaling: RopeScaling | None) -> hf.Qwen3RotaryEmbedding:
    parameters = {"rope_type": "default", "rope_theta": theta}
    more: dict[str, Any] = {}
    if scaling is not None:
        parameters |= {"rope_type": "yarn", **scaling.numbers()}
        more["max_position_embeddings"] = int(scaling.factor * scaling.original_max_position_embeddings)
    return hf.Qwen3RotaryEmbedding(Qwen3Config(head_dim=head_dim, rope_parameters=parameters, **more))


def _frequencies(
    name: str, text: str, exposes: tuple[str, ...], head_dim: int, theta: float, scaling: RopeScaling | None = None
) -> OpCase:
    inv_freq = _rotary(head_dim, theta, scaling).get_buffer("inv_freq").clone()
    numbers = {} if scaling is None else {field: float(value) for field, value in scaling.numbers().items()}
    attributes = {"head_dim": float(head_dim), "theta": theta, **numbers}
    return OpCase(name, "inv_freq", text, (), (inv_freq,), attributes, exposes)


def _tables(
    name: str, text: str, exposes: tuple[str, ...], positions: torch.Tensor, scaling: RopeScaling | None = None
) -> OpCase:
    rotary = _rotary(10, _THETA, scaling)
    inv_freq = torch.from_numpy(ops.inv_freq.forward(10, _THETA, scaling)).float()  # given, so not by a kernel
    rotary.inv_freq = torch.nn.Buffer(inv_freq, persistent=False)
    attributes = {} if scaling is None else {"attention_factor": scaling.attention_factor}
    tables = rotary(torch.zeros(1), positions)
    return OpCase(name, "rope_table", text, (positions, inv_freq), tables, attributes, exposes)


def rope_cases(draw: np.random.Generator) -> list[OpCase]:
    """Frequencies, tables, and a rotation by tables that no kernel made."""
    text, exposes = "The table of angles per position.", ("ROP-07", "ROP-08")
    sizes = ((128, 1e6), (10, _THETA))
    frequencies = [_frequencies(f"inv_freq_{size}", text, exposes, size, theta) for size, theta in sizes]
    text = "Positions 0 to 60000."
    positions = torch.tensor([[0, 1, 2, 255, 256, 257, 1000], [4095, 8192, 32767, 32768, 60000, 5, 5]])
    tables = _tables("rope_table", text, ("ROP-15", "ROP-16"), positions)
    q = torch.from_numpy(draw.standard_normal((2, 6, 7, 10)) * 3).float()
    k = torch.from_numpy(draw.standard_normal((2, 2, 7, 10)) * 3).float()
    inv_freq = tables.operands_by_name["input.inv_freq"].numpy()
    angle = (positions[..., None].numpy().astype(np.float32) * inv_freq).astype(np.float64)
    angle = np.concatenate([angle, angle], axis=-1)
    cos, sin = torch.from_numpy(np.cos(angle)).float(), torch.from_numpy(np.sin(angle)).float()
    rotated = hf.apply_rotary_pos_emb(q, k, cos, sin)
    rotation = OpCase("rope", "rope", text, (q, k, cos, sin), rotated, exposes=("ROP-01", "ROP-05", "ROP-23"))
    return [*frequencies, tables, rotation]


def yarn_cases() -> list[OpCase]:
    """Frequencies as Qwen3 documents them, frequencies with other numbers and a ramp between fractions, tables."""
    exposes = ("ROP-09", "ROP-10")
    positions = torch.tensor([[0, 1, 2, 255, 256, 257, 1000], [4095, 32767, 32768, 100_000, 131_071, 5, 5]])
    text = "Positions 0 to 131071, an attention factor that is stated."
    return [
        _frequencies("inv_freq_yarn", "Qwen3's scaling to 131072 positions.", exposes, 128, 1e6, _QWEN3),
        _frequencies("inv_freq_fractions_yarn", "A ramp that ends between pairs.", exposes, 10, _THETA, _FRACTIONS),
        _tables("rope_table_yarn", text, ("ROP-12", "ROP-13", "ROP-14"), positions, _QWEN3),
    ]
