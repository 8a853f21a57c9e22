"""A network of one layer for a case of one op: which taps its tensors are, and the numbers of the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qwen3_golden import Array, pb


@dataclass(frozen=True)
class Plan:
    """Where an op's tensors stand in a network. `taps` by their names in the case, `weights` likewise.

    `config` has the network's numbers. `reshaped` are taps with other axes than the case's tensors have, `implied` is
    what stands in the network though the case does not have it. `past` slots are there before the step of `query`.
    """

    taps: Mapping[str, str]
    config: pb.ModelConfig
    weights: Mapping[str, str] = field(default_factory=dict)
    reshaped: Mapping[str, Callable[[Array], Array]] = field(default_factory=dict)
    implied: Mapping[str, Array] = field(default_factory=dict)
    query: int = 1
    past: int = 0
    mode: pb.Mode = pb.CAUSAL
    generation: pb.Generation | None = None


def config_of(**numbers: Any) -> pb.ModelConfig:
    """The numbers of a network of one layer; what the op does not say follows from its heads, or is a usual number."""
    heads, head_dim = int(numbers.get("num_attention_heads", 1)), int(numbers.get("head_dim", 2))
    every: dict[str, Any] = {
        "model_type": "qwen3",
        "vocab_size": 2,
        "hidden_size": heads * head_dim,
        "intermediate_size": heads * head_dim,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": 1,
        "head_dim": head_dim,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "max_position_embeddings": 1 << 17,
        "hidden_act": "silu",
        "use_qk_norm": True,
        "layer_types": ["full_attention"],
    }
    return pb.ModelConfig(**(every | numbers))
