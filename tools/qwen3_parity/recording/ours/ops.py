"""Our own code for one op alone, for the cases of the op tier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from qwen3_encdec import (
    Qwen3EncoderDecoderConfig,
    Qwen3ForSeq2SeqLM,
    Qwen3MLP,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
    apply_rotary_pos_emb,
    repeat_kv,
)
from qwen3_encdec.attention import probabilities, scaled_scores, weighted_values
from qwen3_encdec.masks import additive_mask, encoder_mask, merged_mask
from qwen3_encdec.rope import rotary_tables
from qwen3_golden import Array, ParityError, pb
from qwen3_golden.op_table import OP_TABLE
from qwen3_parity.recording.ours.generation import processors

Tensor = torch.Tensor


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    module = Qwen3RMSNorm(x.shape[-1], eps=eps).to(x.dtype)
    module.weight.data = weight
    y: Tensor = module(x)
    return y


def _inv_freq(head_dim: int, theta: float, **yarn: Any) -> Tensor:
    parameters = {"rope_type": "yarn" if yarn else "default", "rope_theta": theta, **yarn}
    return Qwen3RotaryEmbedding(head_dim, rope_parameters=parameters).inv_freq


def _rope_table(position_ids: Tensor, inv_freq: Tensor, attention_factor: float = 1.0) -> tuple[Tensor, Tensor]:
    return rotary_tables(inv_freq, position_ids, torch.float32, attention_factor)


def _repeat_kv(x: Tensor, groups: int) -> Tensor:
    return repeat_kv(x, groups)


def _scores(q: Tensor, k: Tensor, scaling: float) -> Tensor:
    return scaled_scores(q, k, scaling, q.shape[1] // k.shape[1])


def _softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return probabilities(scores, additive_mask(mask[:, None], scores.dtype), scores.dtype)


def _context(probs: Tensor, v: Tensor) -> Tensor:
    return weighted_values(probs, v, probs.shape[1] // v.shape[1])


def _swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """The whole block with projections that pass its two halves on: products with 1 and sums with 0 are exact."""
    width = gate.shape[-1]
    config = Qwen3EncoderDecoderConfig(
        vocab_size=2,
        hidden_size=2 * width,
        intermediate_size=width,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        num_sentinel_tokens=0,
    )
    block = Qwen3MLP(config)
    identity = torch.eye(width)
    block.gate_proj.weight.data = torch.cat((identity, torch.zeros_like(identity)), dim=1)
    block.up_proj.weight.data = torch.cat((torch.zeros_like(identity), identity), dim=1)
    block.down_proj.weight.data = torch.cat((identity, torch.zeros_like(identity)), dim=0)
    y: Tensor = block(torch.cat((gate, up), dim=-1))
    return y[..., :width]


def _mask(encoder: Tensor | None, decoder: Tensor | None, query: int, window: int) -> Tensor:
    device, dtype = torch.device("cpu"), torch.float32
    if decoder is None:
        assert encoder is not None
        mask = encoder_mask(encoder, encoder.shape[0], encoder.shape[1], window or None, dtype, device)
    else:
        total = decoder.shape[1]
        mask = merged_mask(
            decoder,
            encoder,
            batch=decoder.shape[0],
            query=query,
            past=total - query,
            slots=(total, 0),
            encoder_length=0 if encoder is None else encoder.shape[1],
            window=window or None,
            dtype=dtype,
            device=device,
        )
    return mask[:, 0] == 0


def _next_token_probs(logits: Tensor, ids: Tensor, **filters: Any) -> Tensor:
    """By the processors that `generate()` builds for a model of ours."""
    size: dict[str, Any] = dict.fromkeys(("num_attention_heads", "num_key_value_heads"), 1)
    size |= {"hidden_size": 2, "intermediate_size": 2}
    config = Qwen3EncoderDecoderConfig(vocab_size=logits.shape[-1], num_hidden_layers=1, num_sentinel_tokens=0, **size)
    case = pb.Case(max_new_tokens=1, steps=[max(ids.shape[1], 1)])
    case.generation.CopyFrom(pb.Generation(strategy="sample", prompt_length=ids.shape[1], **filters))
    real = torch.ones(len(logits), max(ids.shape[1], 1), dtype=torch.bool)
    process: Any = processors(Qwen3ForSeq2SeqLM(config), case, real)
    filtered: Tensor = process(ids, logits.clone())
    return filtered.softmax(dim=-1)


OPS: Mapping[str, Callable[..., Tensor | tuple[Tensor, ...]]] = {
    "rms_norm": _norm,
    "head_norm": _norm,
    "linear": torch.nn.functional.linear,
    "embedding": torch.nn.functional.embedding,
    "inv_freq": _inv_freq,
    "rope_table": _rope_table,
    "rope": apply_rotary_pos_emb,
    "repeat_kv": _repeat_kv,
    "scores": _scores,
    "softmax": _softmax,
    "context": _context,
    "swiglu": _swiglu,
    "mask": _mask,
    "next_token_probs": _next_token_probs,
}
"""Each of its operands in order and its numbers by name, as `qwen3_golden.op_table` has them."""


def _tensor(array: Array, arithmetic: int) -> Tensor:
    value = torch.from_numpy(array.copy())
    return value.view(torch.bfloat16) if arithmetic == pb.ARITHMETIC_BF16 and value.dtype == torch.uint16 else value


def run_op(case: pb.Case, inputs: Mapping[str, Array], arithmetic: int) -> dict[str, Tensor]:
    """The outputs of a case of the op tier by our code; bfloat16 inputs come as uint16 bits.

    Raises `ParityError` for an op that we do not have.
    """
    if case.op not in OPS:
        raise ParityError(
            case.name,
            "our implementation has no such op",
            expected=", ".join(OPS),
            got=case.op,
            next_step="add it to qwen3_parity.recording.ours.ops",
            fault="harness bug",
        )
    tensors = {name: _tensor(array, arithmetic) for name, array in inputs.items()}
    return OP_TABLE[case.op].computed(OPS[case.op], tensors, {a.key: a.value for a in case.attributes})
