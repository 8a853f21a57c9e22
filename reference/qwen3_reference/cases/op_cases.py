"""The op tier: every case, in the order of the network; see `op_case` for the convention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from transformers.activations import ACT2FN
from transformers.cache_utils import DynamicCache
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.models.qwen3 import Qwen3Config
from transformers.models.qwen3 import modeling_qwen3 as hf

from qwen3_golden import Array
from qwen3_reference.caches import CACHE
from qwen3_reference.cases.op_case import OpCase
from qwen3_reference.cases.op_rope import rope_cases, yarn_cases
from qwen3_reference.cases.op_sampling import sampling_cases


def _rows(draw: np.random.Generator, width: int) -> Array:
    """`[batch, query, width]`: rows of RMS 1, 1e-3, 1e-4 and 0, one with a mean, one of ±1000, one with an outlier."""
    x = draw.standard_normal((2, 8, width))
    x[0, 1] *= 1e-3
    x[0, 2] *= 1e-4
    x[0, 3] = 0
    x[0, 4] += 3.0
    x[0, 5] = np.where(draw.random(width) < 0.5, -1000.0, 1000.0)
    x[0, 6, 3] = 500.0
    x[1] *= 10.0 ** draw.uniform(-2, 2, (8, 1))
    return x


def _norms(draw: np.random.Generator) -> list[OpCase]:
    cases = []
    variants = (
        ("rms_norm", 72, 1e-6, torch.float32),
        ("rms_norm_large_eps", 41, 3e-3, torch.float32),
        ("rms_norm_bfloat16", 72, 1e-6, torch.bfloat16),
        ("rms_norm_float16", 72, 1e-6, torch.float16),
        ("head_norm", 10, 1e-6, torch.float32),
    )
    for name, width, eps, dtype in variants:
        heads = (6,) if name == "head_norm" else ()
        rows = _rows(draw, width * math.prod(heads))
        x = torch.from_numpy(rows.reshape(*rows.shape[:2], *heads, width)).to(dtype)
        module = hf.Qwen3RMSNorm(width, eps=eps).to(dtype)
        weight = torch.from_numpy(draw.uniform(-1.9, 1.9, width)).to(dtype)
        module.weight.data = weight
        cases.append(
            OpCase(
                name,
                "head_norm" if heads else "rms_norm",
                "Rows of tiny RMS, all zeros, a mean, ±1000, an outlier.",
                (x, weight),
                (module(x),),
                {"eps": eps},
                ("NRM-01", "NRM-04", "NRM-06", "NRM-09"),
            )
        )
    return cases


def _linears(draw: np.random.Generator) -> list[OpCase]:
    cases = []
    for name, biased in (("linear", False), ("linear_bias", True)):
        x = torch.from_numpy(draw.standard_normal((2, 5, 41))).float()
        x[0, 1] *= 1e-3
        x[1, 2, 7] = 800.0
        weight = torch.from_numpy(draw.standard_normal((23, 41))).float()
        bias = torch.from_numpy(draw.standard_normal(23)).float() if biased else None
        y = torch.nn.functional.linear(x, weight, bias)
        cases.append(OpCase(name, "linear", "Odd sizes, a tiny row, an outlier.", (x, weight, bias), (y,)))
    return cases


def _embedding(draw: np.random.Generator) -> OpCase:
    weight = torch.from_numpy(draw.standard_normal((53, 12)) * 10.0 ** draw.uniform(-4, 3, (53, 1))).float()
    ids = torch.tensor([[0, 52, 7, 7, 1], [52, 0, 0, 31, 7]])
    rows = torch.nn.functional.embedding(ids, weight)
    return OpCase("embedding", "embedding", "First and last id, repeats.", (ids, weight), (rows,))


def _softmax(draw: np.random.Generator, name: str, text: str, scale: float, mask: Array) -> OpCase:
    """Scores of a scale under a mask `[batch, query, key]`; rows without a visible key are not judged."""
    batch, query, key = mask.shape
    scores = torch.from_numpy(draw.standard_normal((batch, 6, query, key)) * scale).float()
    hidden = torch.zeros(mask.shape).masked_fill(~torch.from_numpy(mask), torch.finfo(torch.float32).min)
    probs = torch.softmax(scores + hidden[:, None], dim=-1, dtype=torch.float32)
    operands = (scores, torch.from_numpy(mask))
    judged = np.broadcast_to(mask[:, None], scores.shape)
    exposes = ("SMX-01", "SMX-04", "SMX-05", "SMX-08")
    return OpCase(name, "softmax", text, operands, (probs,), {}, exposes, judged)


def _scores_and_context(
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


def _attention(draw: np.random.Generator) -> list[OpCase]:
    text, groups = "Groups of 3 for 2 KV heads.", 3
    scores, context = _scores_and_context(draw, "", text, (2, 6, 5, 10), 2, 7)
    k = scores.operands_by_name["input.k"]
    mask = draw.random((2, 5, 300)) < 0.8
    none = draw.random((3, 4, 7)) < 0.6
    none[1], none[2, 2] = False, False
    repeated = hf.repeat_kv(k, groups)
    return [
        OpCase("repeat_kv", "repeat_kv", text, (k,), (repeated,), {"groups": float(groups)}, ("GQA-01",)),
        scores,
        _softmax(draw, "softmax_large", "Scores far above 88, where a plain exp overflows.", 90.0, mask[:, :, :20]),
        _softmax(draw, "softmax_many_keys", "300 keys.", 2.0, mask),
        _softmax(draw, "softmax_hidden_rows", "Rows and a batch row without a visible key.", 2.0, none),
        context,
    ]


def _swiglu(draw: np.random.Generator) -> OpCase:
    gate = torch.from_numpy(draw.standard_normal((2, 4, 31)) * 4).float()
    gate[0, 0, :6] = torch.tensor([100.0, -100.0, 0.0, -0.0, -88.0, 1e-4])
    up = torch.from_numpy(draw.standard_normal((2, 4, 31)) * 3).float()
    act = ACT2FN["silu"](gate) * up
    return OpCase("swiglu", "swiglu", "Gates of ±100 and ±0.", (gate, up), (act,), exposes=("MLP-06",))


def _masks() -> list[OpCase]:
    encoder = torch.tensor(
        [[1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0, 0, 0, 0]]
    ).bool()
    memory = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]]).bool()
    text = "No padding, left padding, holes and right padding"
    cases = []
    for window in (0, 2, 3):
        variants: dict[str, tuple[torch.Tensor | None, torch.Tensor | None, int]] = {
            "bidirectional": (encoder, None, 9),
            "causal": (None, encoder, 9),
            "decode": (None, encoder, 1),
            "chunk": (None, encoder, 3),
            "merged": (memory, encoder, 9),
            "merged_chunk": (memory, encoder, 3),
        }
        for kind, (of_encoder, of_decoder, query) in variants.items():
            name = f"mask_{kind}" + (f"_window_{window}" if window else "")
            mask = _mask_output(of_encoder, of_decoder, query, window)
            attributes = {"query": float(query), "window": float(window)}
            sentence = f"{text}; {kind.replace('_', ' ')}, window {window or 'none'}."
            operands = (of_encoder, of_decoder)
            cases.append(OpCase(name, "mask", sentence, operands, (mask,), attributes, ("MSK-01", "MSK-22")))
    return cases


_IDS = [[0, 69_999, 255, 256, 65_535], [65_536, 65_537, 4_463, 32_768, 69_999]]
"""Of each power of two that an index may be cut to, the last id below and the first above; 4,463 is 69,999 cut."""


def _embedding_of_many_ids() -> OpCase:
    weight = torch.arange(70_000, dtype=torch.float32)[:, None] - 34_999.5
    ids = torch.tensor(_IDS)
    return OpCase(
        "embedding_many_ids",
        "embedding",
        "70,000 rows of one number, each its own: ids around 2^8, 2^15 and 2^16.",
        (ids, weight),
        (torch.nn.functional.embedding(ids, weight),),
        exposes=("EMB-05",),
    )


def _large() -> list[OpCase]:
    """Sizes beyond a byte (256 keys), beyond a tile of 1,024 keys, and beyond 16 bits (65,536 ids)."""
    draw = np.random.Generator(np.random.PCG64(7003))
    mask = draw.random((1, 2, 1100)) < 0.9
    products = _scores_and_context(draw, "_many_keys", "300 keys.", (1, 4, 2, 6), 2, 300)
    text = "1,100 keys, more than a block of 1,024."
    return [_embedding_of_many_ids(), *products, _softmax(draw, "softmax_1100_keys", text, 2.0, mask)]


def op_cases() -> list[OpCase]:
    """Every case of the op tier; inputs are drawn with PCG64, the same at each call."""
    draw = np.random.Generator(np.random.PCG64(7001))
    with torch.no_grad():
        cases = [
            *_norms(draw),
            *_linears(draw),
            _embedding(draw),
            *rope_cases(draw),
            *yarn_cases(),
            *_attention(draw),
            _swiglu(draw),
        ]
        return [*cases, *_masks(), *sampling_cases(), *_large()]


def _built_mask(mask: torch.Tensor, query: int, window: int, *, is_causal: bool) -> torch.Tensor:
    """Bool `[batch, query, key]` over the slots of `mask[batch, key]`, the queries being the last ones."""
    config: Any = Qwen3Config(
        num_hidden_layers=1, sliding_window=window or None, use_sliding_window=bool(window), max_window_layers=0
    )
    config.is_causal = is_causal
    config._attn_implementation = "eager"
    cache = DynamicCache()
    past = mask.shape[1] - query
    if past:
        empty = torch.zeros(mask.shape[0], 1, past, 1)
        cache.update(empty, empty, 0)
    builder = create_sliding_window_causal_mask if window else create_causal_mask
    embeds = torch.empty(mask.shape[0], query, 1)
    held: Any = {CACHE: cache}
    built: Any = builder(config=config, inputs_embeds=embeds, attention_mask=mask.long(), position_ids=None, **held)
    shown: torch.Tensor = built[:, 0] == 0
    return shown


def _mask_output(encoder: torch.Tensor | None, decoder: torch.Tensor | None, query: int, window: int) -> torch.Tensor:
    """The encoder's mask (no decoder given), the causal one (no encoder), or the merged one, decoder slots first."""
    if decoder is None:
        assert encoder is not None
        return _built_mask(encoder, query, window, is_causal=False)
    causal = _built_mask(decoder, query, window, is_causal=True)
    if encoder is None:
        return causal
    return torch.cat([causal, encoder[:, None].expand(-1, query, -1)], dim=-1)
