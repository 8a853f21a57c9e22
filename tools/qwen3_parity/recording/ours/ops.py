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
from qwen3_parity.recording.ours.generation import processors

Given = Mapping[str, torch.Tensor]
Numbers = Mapping[str, float]
Outputs = dict[str, torch.Tensor]


def _norm(inputs: Given, numbers: Numbers) -> Outputs:
    x, weight = inputs["input.x"], inputs["parameter.weight"]
    module = Qwen3RMSNorm(x.shape[-1], eps=numbers["eps"]).to(x.dtype)
    module.weight.data = weight
    return {"output.y": module(x)}


def _linear(inputs: Given, numbers: Numbers) -> Outputs:
    bias = inputs.get("parameter.bias")
    return {"output.y": torch.nn.functional.linear(inputs["input.x"], inputs["parameter.weight"], bias)}


def _embedding(inputs: Given, numbers: Numbers) -> Outputs:
    return {"output.y": torch.nn.functional.embedding(inputs["input.ids"], inputs["parameter.weight"])}


def _inv_freq(inputs: Given, numbers: Numbers) -> Outputs:
    scaling = {name: value for name, value in numbers.items() if name not in ("head_dim", "theta")}
    if scaling:
        length = int(scaling["original_max_position_embeddings"])
        scaling |= {"original_max_position_embeddings": length, "truncate": bool(scaling["truncate"])}
    parameters = {"rope_type": "yarn" if scaling else "default", "rope_theta": numbers["theta"], **scaling}
    return {"output.inv_freq": Qwen3RotaryEmbedding(int(numbers["head_dim"]), rope_parameters=parameters).inv_freq}


def _rope_table(inputs: Given, numbers: Numbers) -> Outputs:
    factor = numbers.get("attention_factor", 1.0)
    cos, sin = rotary_tables(inputs["input.inv_freq"], inputs["input.position_ids"], torch.float32, factor)
    return {"output.cos": cos, "output.sin": sin}


def _rope(inputs: Given, numbers: Numbers) -> Outputs:
    q, k = apply_rotary_pos_emb(inputs["input.q"], inputs["input.k"], inputs["input.cos"], inputs["input.sin"])
    return {"output.q": q, "output.k": k}


def _repeat_kv(inputs: Given, numbers: Numbers) -> Outputs:
    return {"output.y": repeat_kv(inputs["input.x"], int(numbers["groups"]))}


def _scores(inputs: Given, numbers: Numbers) -> Outputs:
    q, k = inputs["input.q"], inputs["input.k"]
    return {"output.scores": scaled_scores(q, k, numbers["scaling"], q.shape[1] // k.shape[1])}


def _softmax(inputs: Given, numbers: Numbers) -> Outputs:
    scores = inputs["input.scores"]
    mask = additive_mask(inputs["input.mask"][:, None], scores.dtype)
    return {"output.probs": probabilities(scores, mask, scores.dtype)}


def _context(inputs: Given, numbers: Numbers) -> Outputs:
    probs, value = inputs["input.probs"], inputs["input.v"]
    return {"output.context": weighted_values(probs, value, probs.shape[1] // value.shape[1])}


def _swiglu(inputs: Given, numbers: Numbers) -> Outputs:
    """The whole block with projections that pass its two halves on: products with 1 and sums with 0 are exact."""
    gate, up = inputs["input.gate"], inputs["input.up"]
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
    return {"output.act": block(torch.cat((gate, up), dim=-1))[..., :width]}


def _mask(inputs: Given, numbers: Numbers) -> Outputs:
    encoder, decoder = inputs.get("input.encoder_attention_mask"), inputs.get("input.decoder_attention_mask")
    window = int(numbers["window"]) or None
    device, dtype = torch.device("cpu"), torch.float32
    if decoder is None:
        assert encoder is not None
        mask = encoder_mask(encoder, encoder.shape[0], encoder.shape[1], window, dtype, device)
    else:
        query, total = int(numbers["query"]), decoder.shape[1]
        mask = merged_mask(
            decoder,
            encoder,
            batch=decoder.shape[0],
            query=query,
            past=total - query,
            slots=(total, 0),
            encoder_length=0 if encoder is None else encoder.shape[1],
            window=window,
            dtype=dtype,
            device=device,
        )
    return {"output.mask": mask[:, 0] == 0}


def _next_token_probs(inputs: Given, numbers: Numbers) -> Outputs:
    """By the processors that `generate()` builds for a model of ours."""
    logits, ids = inputs["input.logits"], inputs["input.ids"]
    size: dict[str, Any] = dict.fromkeys(("num_attention_heads", "num_key_value_heads"), 1)
    size |= {"hidden_size": 2, "intermediate_size": 2}
    config = Qwen3EncoderDecoderConfig(vocab_size=logits.shape[-1], num_hidden_layers=1, num_sentinel_tokens=0, **size)
    case = pb.Case(max_new_tokens=1, steps=[max(ids.shape[1], 1)])
    case.generation.CopyFrom(pb.Generation(strategy="sample", prompt_length=ids.shape[1]))
    for name, value in numbers.items():
        setattr(case.generation, name, int(value) if name == "top_k" else value)
    real = torch.ones(len(logits), max(ids.shape[1], 1), dtype=torch.bool)
    filters: Any = processors(Qwen3ForSeq2SeqLM(config), case, real)
    return {"output.probs": filters(ids, logits.clone()).softmax(dim=-1)}


OPS: dict[str, Callable[[Given, Numbers], Outputs]] = {
    "rms_norm": _norm,
    "head_norm": _norm,
    "linear": _linear,
    "embedding": _embedding,
    "inv_freq": _inv_freq,
    "rope_table": _rope_table,
    "rope": _rope,
    "repeat_kv": _repeat_kv,
    "scores": _scores,
    "softmax": _softmax,
    "context": _context,
    "swiglu": _swiglu,
    "mask": _mask,
    "next_token_probs": _next_token_probs,
}


def _tensor(array: Array, arithmetic: int) -> torch.Tensor:
    value = torch.from_numpy(array.copy())
    return value.view(torch.bfloat16) if arithmetic == pb.ARITHMETIC_BF16 and value.dtype == torch.uint16 else value


def run_op(case: pb.Case, inputs: Mapping[str, Array], arithmetic: int) -> Outputs:
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
    return OPS[case.op](tensors, {a.key: a.value for a in case.attributes})
