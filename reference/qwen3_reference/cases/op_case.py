"""The op tier: one operation alone, on inputs that whole runs seldom meet, computed by Hugging Face's own code.

Convention of a recording of the mode OP: `case.op` names the operation, `case.attributes` its numbers; tensors are
called "input.x" (what it is given, op "input"), "parameter.x" (weights, op "parameter") and "output.x":

op          inputs and parameters                                   attributes        outputs
rms_norm    input.x, parameter.weight                               eps               output.y
head_norm   input.x [batch, query, heads, head_dim], parameter.weight  eps            output.y
linear      input.x, parameter.weight [out, in], perhaps parameter.bias               output.y
embedding   input.ids, parameter.weight                                               output.y
inv_freq    -                                                       head_dim, theta   output.inv_freq
            (with YaRN also factor, attention_factor, beta_fast, beta_slow, original_max_position_embeddings and
            truncate, 1 or 0)
rope_table  input.position_ids [batch, query], input.inv_freq       attention_factor  output.cos, output.sin
                                                                    (1 without it)
rope        input.q, input.k [batch, heads, query, head_dim], input.cos, input.sin    output.q, output.k
repeat_kv   input.x [batch, kv_heads, key, head_dim]                groups            output.y
scores      input.q, input.k                                        scaling           output.scores
softmax     input.scores, input.mask [batch, query, key]                              output.probs
context     input.probs, input.v                                                      output.context
swiglu      input.gate, input.up (the activation is SiLU)                             output.act
mask        input.encoder_attention_mask and, for a decoder,        query, window     output.mask
            input.decoder_attention_mask (past and current slots)   (0 = no window)
next_token_probs  input.logits [batch, vocab], input.ids [batch, slot]  repetition_penalty, output.probs
            (the tokens that each row has had)                      temperature, top_k, top_p, min_p
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from qwen3_golden import Array

Outputs = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class OpCase:
    """One op on given tensors. `given` holds input.* and parameter.* tensors; `axes` those of the outputs."""

    name: str
    op: str
    description: str
    given: Mapping[str, torch.Tensor]
    outputs: Outputs
    axes: tuple[str, ...]
    attributes: Mapping[str, float] = field(default_factory=dict)
    exposes: tuple[str, ...] = ()
    judged: Array | None = None
