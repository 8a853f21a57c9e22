"""The classic encoder's checkpoints, drawn from a seed as those of `checkpoints`: loud, written once.

LayerNorm weights are away from 1 and no bias is near 0; each head has a scale of its own; some embedding rows are tiny,
and the first position's is too, so that an eps shows; the three thirds of a fused projection are of three sizes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from qwen3_golden import Array
from qwen3_reference.checkpoints.classic_configs import MODEL_TYPE, classic_config
from qwen3_reference.checkpoints.classic_weights import expected_tensors
from qwen3_reference.checkpoints.tiny import new_directory, norm_weight

TINY_TOKENS = (5, 11)
TINY_POSITIONS = (0, 3)
_SCALES = {
    "self_attn.qkv_proj": 1.1,
    "self_attn.out_proj": 0.9,
    "feed_forward.linear1": 1.2,
    "feed_forward.linear2": 1.0,
}
_THIRDS = (0.9, 0.6, 1.1)
"""Scales of q, k and v in a fused projection."""
_SIZES: dict[str, Any] = {
    "model_type": MODEL_TYPE,
    "hidden_size": 12,
    "num_attention_heads": 4,
    "intermediate_size": 14,
    "num_hidden_layers": 2,
    "max_position_embeddings": 9,
    "vocab_size": 29,
    "scale_embeddings": True,
    "starts_with_hidden_states": False,
    "layer_norm_eps": 1e-5,
}


@dataclass(frozen=True)
class ClassicDefinition:
    """How one checkpoint is drawn: its name, its seed and what config.json has beside the common sizes."""

    name: str
    seed: int
    config: dict[str, Any]


CLASSIC_DEFINITIONS = (
    ClassicDefinition("classic-pre-norm", 1001, {"norm_first": True, "hidden_act": "gelu", "num_hidden_layers": 3}),
    ClassicDefinition("classic-post-norm", 1002, {"norm_first": False, "hidden_act": "relu"}),
    ClassicDefinition(
        "classic-bert",
        1003,
        {
            "norm_first": False,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": 0,
            "scale_embeddings": False,
            "starts_with_hidden_states": True,
            "vocab_size": 0,
        },
    ),
)


def _drawn(draw: np.random.Generator, name: str, shape: tuple[int, ...], heads: int) -> Array:
    """One tensor by its stored name."""
    module, _, part = name.rpartition(".")
    if module.endswith("norm") or module[:-1].endswith("norm"):
        return norm_weight(draw, shape[0], 0.3, 2.0) if part == "weight" else draw.normal(0.2, 0.5, shape)
    if part == "bias":
        return draw.normal(0.2, 0.4, shape)
    if module.startswith("embed"):
        rows = draw.standard_normal(shape) * np.exp(draw.uniform(np.log(0.2), np.log(0.7), (shape[0], 1)))
        rows[::3] += 0.4  # rows with a mean, which LayerNorm takes away
        rows[list(TINY_TOKENS if module.endswith("tokens") else TINY_POSITIONS)] *= 1e-3
        return rows
    weight: Array = draw.standard_normal(shape) * (_SCALES[module.split(".", 2)[2]] / np.sqrt(shape[1]))
    if module.endswith("qkv_proj"):
        third = shape[0] // 3
        weight *= np.repeat(_THIRDS, third)[:, None]
        weight *= np.repeat(np.exp(draw.uniform(np.log(0.6), np.log(1.7), 3 * heads)), third // heads)[:, None]
    return weight


def write_classic(definition: ClassicDefinition, directory: Path) -> None:
    """Draw one checkpoint into a new directory; `ParityError` when it exists."""
    new_directory(directory)
    text = json.dumps(_SIZES | definition.config, indent=2, sort_keys=True)
    (directory / "config.json").write_text(text + "\n", encoding="utf-8")
    save_file(draw_classic(definition, directory), directory / "model.safetensors", metadata={"format": "pt"})


def draw_classic(definition: ClassicDefinition, directory: Path) -> dict[str, Array]:
    """Every tensor by its stored name, float32, for the config.json of `directory`."""
    config = classic_config(directory)
    draw = np.random.Generator(np.random.PCG64(definition.seed))
    heads = config.num_attention_heads
    shapes = expected_tensors(config)
    return {name: _drawn(draw, name, shape, heads).astype(np.float32) for name, shape in shapes.items()}
