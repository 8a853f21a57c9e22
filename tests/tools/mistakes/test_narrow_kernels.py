"""Kernels in narrower types: fused attention with half accumulators, bf16x3, and TF32 beside float16.

It runs `mistakes.narrow_sums`, too.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from seeded import Compute, fault, weights
from wrong_numbers import golden

from qwen3_golden import Array
from qwen3_parity.blame.rerun import Rerun
from qwen3_parity.blame.rerun import seeded as rerun
from qwen3_parity.diagnosis import diagnose
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

CASE, ATTENTION = "decoder/ragged_decode", "decoder.layers.{layer}.merged_attn"
FUSED = ("scores", "probs")
Half = torch.dtype


def halves(x: Array, dtype: Half) -> torch.Tensor:
    return torch.tensor(np.asarray(x, np.float32)).to(dtype).float()


def flash(dtype: Half) -> Compute:
    """Attention key by key, as a kernel for one query at a time has it: Q, K, V and the accumulator are narrow."""

    def compute(site: Site) -> Result:
        scored, mask = (
            site.values.site(site.sibling("scores"), site.step),
            site.values.value(site.sibling("mask"), site.step),
        )
        assert scored is not None and mask is not None
        q, k = (halves(operand, dtype) for operand in scored.inputs[:2])
        v = halves(site.inputs[1], dtype)
        groups = q.shape[1] // k.shape[1]
        out = np.zeros((q.shape[0], q.shape[2], q.shape[1], q.shape[3]), np.float32)
        for b, h, i in np.ndindex(*q.shape[:3]):
            peak, total, sums = -math.inf, torch.tensor(0.0), torch.zeros(q.shape[3])
            for j in range(k.shape[2]):
                if not mask[b, i, j]:
                    continue
                score = (q[b, h, i] * k[b, h // groups, j]).double().sum().float() * site.scaling
                new = max(peak, float(score))
                if new > peak:
                    sums = (sums * math.exp(peak - new)).to(dtype).float()
                    total, peak = total * math.exp(peak - new), new
                weight = torch.exp(score - peak)
                sums, total = (sums + weight * v[b, h // groups, j]).to(dtype).float(), total + weight
            out[b, i, h] = (sums / total).numpy() if float(total) else 0.0
        return out, None

    return compute


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_half_accumulator_of_fused_attention_has_a_name(dtype: Half) -> None:
    explained = fault(CASE, {f"{ATTENTION}.context": flash(dtype)}, without=FUSED)
    assert explained.name == "attention.half_precision"
    assert f"holds queries, keys and values in {str(dtype).removeprefix('torch.')}" in explained.explanations[0].says


def bf16x3(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b, both operands in two parts of bfloat16."""
    (high, low), (above, below) = (
        ((x.bfloat16().float()), (x - x.bfloat16().float()).bfloat16().float()) for x in (a, b)
    )
    return (high.double() @ above.double() + high.double() @ below.double() + low.double() @ above.double()).float()


def split_linear(site: Site) -> Result:
    x, w = (torch.tensor(np.asarray(operand, np.float32)) for operand in (site.inputs[0], site.parameters["weight"]))
    return bf16x3(x.flatten(2), w.T).numpy(), None


def split_scores(site: Site) -> Result:
    q, k = (torch.tensor(np.asarray(operand, np.float32)) for operand in site.inputs[:2])
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    return (bf16x3(q, k.transpose(2, 3)) * site.scaling).numpy(), None


SPLIT: dict[str, tuple[str, Compute, str]] = {
    "a projection": ("mlp.gate_proj", split_linear, "linear.half_precision"),
    "scores": ("merged_attn.scores", split_scores, "scores.half_precision"),
}


@pytest.mark.parametrize("kind", SPLIT)
def test_three_products_of_bfloat16_have_a_name(kind: str) -> None:
    place, wrong, name = SPLIT[kind]
    explained = fault(CASE, {f"decoder.layers.{{layer}}.{place}": wrong})
    assert explained.name == name and "bf16x3" in explained.explanations[0].says


def tf32(x: Array) -> Array:
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def in_tf32(site: Site) -> Result:
    return tf32(OPS[site.place.op].truth(site)[0]), None


def test_float16_and_tf32_are_both_told_where_no_number_tells_them_apart() -> None:
    explained = fault(CASE, {f"{ATTENTION}.q_proj": in_tf32})
    assert explained.name == "linear.half_precision" and "float16 or TF32" in explained.explanations[0].says


def test_the_range_tells_tf32_from_float16() -> None:
    expected, tiny = golden(CASE), dict(weights(CASE))
    tiny["decoder.norm.weight"] = tiny["decoder.norm.weight"] * np.float32(2.0**-22)  # below float16's normal numbers
    candidate = rerun(Rerun(CASE, expected, tiny), {"decoder.norm": in_tf32})
    (explained, *_) = diagnose(expected, candidate, tiny).faults
    assert explained.fault.place == "decoder.norm"
    assert "TF32" in explained.explanations[0].says and "float16" not in explained.explanations[0].says


def test_nobody_with_a_fused_kernel_is_sent_for_scores_alone() -> None:
    def strange(site: Site) -> Result:
        y, unit = OPS["context"].truth(site)
        return y + np.sin(50 * y), unit

    explained = fault(CASE, {f"{ATTENTION}.context": strange}, without=FUSED)
    assert "record" in explained.record and "plain attention" in explained.record
