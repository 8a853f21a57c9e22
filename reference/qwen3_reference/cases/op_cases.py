"""The op tier: every case, in the order of the network; see `op_case` for the convention."""

from __future__ import annotations

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
from qwen3_reference.cases.op_attention import attention_cases, rope_cases
from qwen3_reference.cases.op_case import OpCase
from qwen3_reference.cases.op_large import large_cases
from qwen3_reference.cases.op_sampling import sampling_cases
from qwen3_reference.cases.op_yarn import yarn_cases

_HIDDEN = ("batch", "query", "hidden")


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
        ("rms_norm", 72, 1e-6, torch.float32, _HIDDEN),
        ("rms_norm_large_eps", 41, 3e-3, torch.float32, _HIDDEN),
        ("rms_norm_bfloat16", 72, 1e-6, torch.bfloat16, _HIDDEN),
        ("rms_norm_float16", 72, 1e-6, torch.float16, _HIDDEN),
        ("head_norm", 10, 1e-6, torch.float32, ("batch", "query", "heads", "head_dim")),
    )
    for name, width, eps, dtype, axes in variants:
        rows = _rows(draw, width if name != "head_norm" else 6 * width)
        x = torch.from_numpy(rows.reshape(*rows.shape[:2], *((6, width) if name == "head_norm" else (width,)))).to(
            dtype
        )
        module = hf.Qwen3RMSNorm(width, eps=eps).to(dtype)
        weight = torch.from_numpy(draw.uniform(-1.9, 1.9, width)).to(dtype)
        module.weight.data = weight
        cases.append(
            OpCase(
                name,
                "head_norm" if name == "head_norm" else "rms_norm",
                "Rows of tiny RMS, all zeros, a mean, ±1000, an outlier.",
                {"input.x": x, "parameter.weight": weight},
                {"output.y": module(x)},
                axes,
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
        operands = {"input.x": x, "parameter.weight": torch.from_numpy(draw.standard_normal((23, 41))).float()}
        if biased:
            operands["parameter.bias"] = torch.from_numpy(draw.standard_normal(23)).float()
        y = torch.nn.functional.linear(x, operands["parameter.weight"], operands.get("parameter.bias"))
        cases.append(OpCase(name, "linear", "Odd sizes, a tiny row, an outlier.", operands, {"output.y": y}, _HIDDEN))
    return cases


def _embedding(draw: np.random.Generator) -> OpCase:
    weight = torch.from_numpy(draw.standard_normal((53, 12)) * 10.0 ** draw.uniform(-4, 3, (53, 1))).float()
    ids = torch.tensor([[0, 52, 7, 7, 1], [52, 0, 0, 31, 7]])
    operands = {"input.ids": ids, "parameter.weight": weight}
    outputs = {"output.y": torch.nn.functional.embedding(ids, weight)}
    return OpCase("embedding", "embedding", "First and last id, repeats.", operands, outputs, _HIDDEN)


def _swiglu(draw: np.random.Generator) -> OpCase:
    gate = torch.from_numpy(draw.standard_normal((2, 4, 31)) * 4).float()
    gate[0, 0, :6] = torch.tensor([100.0, -100.0, 0.0, -0.0, -88.0, 1e-4])
    up = torch.from_numpy(draw.standard_normal((2, 4, 31)) * 3).float()
    outputs = {"output.act": ACT2FN["silu"](gate) * up}
    axes = ("batch", "query", "intermediate")
    operands = {"input.gate": gate, "input.up": up}
    return OpCase("swiglu", "swiglu", "Gates of ±100 and ±0.", operands, outputs, axes, exposes=("MLP-06",))


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
            pairs = {"encoder": of_encoder, "decoder": of_decoder}
            operands = {f"input.{stack}_attention_mask": mask for stack, mask in pairs.items() if mask is not None}
            name = f"mask_{kind}" + (f"_window_{window}" if window else "")
            output = {"output.mask": _mask_outputs(of_encoder, of_decoder, query, window)}
            attributes = {"query": float(query), "window": float(window)}
            axes = ("batch", "query", "key")
            sentence = f"{text}; {kind.replace('_', ' ')}, window {window or 'none'}."
            cases.append(OpCase(name, "mask", sentence, operands, output, axes, attributes, ("MSK-01", "MSK-22")))
    return cases


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
            *attention_cases(draw),
            _swiglu(draw),
        ]
        return [*cases, *_masks(), *sampling_cases(), *large_cases()]


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


def _mask_outputs(encoder: torch.Tensor | None, decoder: torch.Tensor | None, query: int, window: int) -> torch.Tensor:
    """The encoder's mask (no decoder given), the causal one (no encoder), or the merged one, decoder slots first."""
    if decoder is None:
        assert encoder is not None
        return _built_mask(encoder, query, window, is_causal=False)
    causal = _built_mask(decoder, query, window, is_causal=True)
    if encoder is None:
        return causal
    return torch.cat([causal, encoder[:, None].expand(-1, query, -1)], dim=-1)
