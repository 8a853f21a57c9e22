"""The config.json of a published model, from its numbers."""

from __future__ import annotations

import math
from typing import Any

from qwen3_golden import ParityError, pb
from qwen3_reference.checkpoints.families import FAMILIES
from qwen3_spec.rope_scaling import KINDS

SAME_NAME = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "rms_norm_eps",
    "rope_theta",
    "max_position_embeddings",
    "hidden_act",
    "tie_word_embeddings",
)


def config_json(config: pb.ModelConfig, dtype: str) -> dict[str, Any]:
    """The fields of a Hugging Face config.json, in the layout of the published files; `dtype` as "bfloat16".

    Raises `ParityError` for numbers that the family's config.json cannot state.
    """
    kind = config.model_type
    family = FAMILIES.get(kind)
    biases = (config.attention_bias, config.attention_out_bias)
    if family is None or config.use_qk_norm != family.use_qk_norm:
        raise _impossible("QK-norm on qwen3, none on qwen2", f"{kind!r} with use_qk_norm {config.use_qk_norm}")
    if biases != family.biases_of(config.attention_bias):
        raise _impossible("biases on q, k, v of qwen2; on q, k, v, o of qwen3 or nowhere", f"{kind!r} with {biases}")
    fields: dict[str, Any] = {name: getattr(config, name) for name in SAME_NAME}
    fields |= {
        "architectures": [f"{family.prefix}ForCausalLM"],
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "rope_scaling": None,
        "sliding_window": config.sliding_window or None,
        "torch_dtype": dtype,
        "use_cache": True,
        "use_sliding_window": bool(config.sliding_window),
    }
    if family.states_head_dim:
        fields |= {"attention_bias": config.attention_bias, "head_dim": config.head_dim}
    elif config.head_dim * config.num_attention_heads != config.hidden_size:
        raise _impossible(
            "head_dim × heads = hidden_size on qwen2", f"{config.head_dim} × {config.num_attention_heads}"
        )
    if config.sliding_window:
        fields["layer_types"] = list(config.layer_types)
    if config.HasField("rope_scaling"):
        fields["rope_scaling"] = _stated(config.rope_scaling)
    if config.vocab_size > max(family.special_ids):
        fields |= dict(zip(("bos_token_id", "eos_token_id"), family.special_ids, strict=True))
    return fields


def _stated(scaling: pb.RopeScaling) -> dict[str, Any]:
    """The scaling as people write it into a config.json: without the numbers that a reader has to find by himself."""
    magnitude = 0.1 * math.log(scaling.factor) + 1.0
    known = {"attention_factor": magnitude, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
    numbers = {name: getattr(scaling, name) for name in ("rope_type", *KINDS[scaling.rope_type].names)}
    return {name: value for name, value in numbers.items() if name not in known or value != known[name]}


def _impossible(expected: str, got: str) -> ParityError:
    return ParityError(
        "config",
        "Hugging Face's config.json cannot state these numbers",
        expected=expected,
        got=got,
        next_step="use the numbers of a Qwen3 or Qwen2 model",
    )
