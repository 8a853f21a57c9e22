"""The op tier: what attention computes between its projections."""

from __future__ import annotations

import numpy as np
import torch
from transformers.models.qwen3 import modeling_qwen3 as hf

from qwen3_golden import Array
from qwen3_reference.cases.op_case import OpCase


def softmax_case(draw: np.random.Generator, name: str, text: str, scale: float, mask: Array) -> OpCase:
    """Scores of a scale under a mask `[batch, query, key]`; rows without a visible key are not judged."""
    batch, query, key = mask.shape
    scores = torch.from_numpy(draw.standard_normal((batch, 6, query, key)) * scale).float()
    hidden = torch.zeros(mask.shape).masked_fill(~torch.from_numpy(mask), torch.finfo(torch.float32).min)
    probs = torch.softmax(scores + hidden[:, None], dim=-1, dtype=torch.float32)
    operands = (scores, torch.from_numpy(mask))
    judged = np.broadcast_to(mask[:, None], scores.shape)
    exposes = ("SMX-01", "SMX-04", "SMX-05", "SMX-08")
    return OpCase(name, "softmax", text, operands, (probs,), {}, exposes, judged)


def scores_and_context(
    draw: np.random.Generator, kind: str, text: str, queries: tuple[int, int, int, int], kv_heads: int, keys: int
) -> tuple[OpCase, OpCase]:
    """The two products of attention, of drawn queries `[batch, heads, query, head_dim]` and as many keys as wanted."""
    batch, heads, query, head_dim = queries
    shape = (batch, kv_heads, keys, head_dim)
    q, k, v = (torch.from_numpy(draw.standard_normal(size) * 2).float() for size in (queries, shape, shape))
    groups, scaling = heads // kv_heads, head_dim**-0.5
    products = torch.matmul(q, hf.repeat_kv(k, groups).transpose(2, 3)) * scaling
    # Quotients of counts, not a softmax: a case's inputs are the same bits whatever kernels record it.
    counts = draw.integers(0, 50, (batch, heads, query, keys)) ** 2
    probs = torch.from_numpy(counts / counts.sum(axis=-1, keepdims=True)).float()
    context = torch.matmul(probs, hf.repeat_kv(v, groups)).transpose(1, 2).contiguous()
    return (
        OpCase(f"scores{kind}", "scores", text, (q, k), (products,), {"scaling": scaling}),
        OpCase(f"context{kind}", "context", text, (probs, v), (context,)),
    )


def attention_cases(draw: np.random.Generator) -> list[OpCase]:
    text, groups = "Groups of 3 for 2 KV heads.", 3
    scores, context = scores_and_context(draw, "", text, (2, 6, 5, 10), 2, 7)
    k = scores.given["input.k"]
    mask = draw.random((2, 5, 300)) < 0.8
    none = draw.random((3, 4, 7)) < 0.6
    none[1], none[2, 2] = False, False
    repeated = hf.repeat_kv(k, groups)
    return [
        OpCase("repeat_kv", "repeat_kv", text, (k,), (repeated,), {"groups": float(groups)}, ("GQA-01",)),
        scores,
        softmax_case(draw, "softmax_large", "Scores far above 88, where a plain exp overflows.", 90.0, mask[:, :, :20]),
        softmax_case(draw, "softmax_many_keys", "300 keys.", 2.0, mask),
        softmax_case(draw, "softmax_hidden_rows", "Rows and a batch row without a visible key.", 2.0, none),
        context,
    ]
