"""Loud tiny checkpoints, drawn from a seed into real Hugging Face directories: written once, never drawn again.

Default initialisation hides bugs (norm weights of 1, scores near 0, layers that are alike). Here every norm weight is
far from 1 and on the grid of 2^-10 (so that T5Gemma 2's "weight minus one" is exact), sometimes negative, different on
both channels of a RoPE pair and in every layer, norm and stack; projections have a scale of their own for each head;
some channels are large; some embedding rows are tiny or have a mean; two rows are bit-equal; the padding rows and the
pad token's row are large; no projection is square unless the checkpoint is there for that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from qwen3_golden import Array, ParityError, to_bfloat16
from qwen3_reference.checkpoints.families import FAMILIES
from qwen3_reference.checkpoints.safetensors_writer import SIZES as SIZES_OF
from qwen3_reference.checkpoints.safetensors_writer import header, write_index
from qwen3_reference.checkpoints.sizes import (
    BIASED,
    GENERATION,
    HEAD_DIM_64,
    MULTIPLES_OF_256,
    PAD_ID,
    QWEN2,
    SIZES,
    TRAINING_TIED,
    TRAINING_UNTIED,
    WINDOW,
    YARN_MSCALE,
    YARN_STATED,
)

TINY_IDS = (7, 11, 20)
TWIN_IDS = (30, 31)
PADDING_ROWS = 4
_CODES = {"float32": "F32", "bfloat16": "BF16"}


@dataclass(frozen=True)
class Definition:
    """How one checkpoint is drawn. Those of one `embedding_seed` have bit-equal embeddings and differ elsewhere.

    `softening` multiplies embedding and head: the softmax of loud logits is one-hot, and hides gradients.
    """

    name: str
    seed: int
    embedding_seed: int
    config: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    stores_head: bool = False
    files: int = 1
    softening: float = 1.0

    def full_config(self) -> dict[str, Any]:
        """config.json; a field set to None over the common ones is left out, as `head_dim` on Qwen2."""
        merged = {**SIZES, **self.config}
        return {name: value for name, value in sorted(merged.items()) if value is not None or name == "sliding_window"}


DEFINITIONS = (
    Definition("tied-encoder", 101, 100),
    Definition("tied-decoder", 102, 100, stores_head=True),
    Definition("window-encoder", 201, 200, WINDOW, stores_head=True, files=2),
    Definition("window-decoder", 202, 200, WINDOW, stores_head=True),
    Definition("qwen2-encoder", 301, 300, QWEN2, stores_head=True),
    Definition("qwen2-decoder", 302, 300, QWEN2, stores_head=True),
    Definition(
        "even-window",
        401,
        400,
        {
            "max_position_embeddings": 16,
            "max_window_layers": 1,
            "num_hidden_layers": 2,
            "rope_theta": 7777.0,
            "sliding_window": 6,
            "use_sliding_window": True,
            "vocab_size": 231,
        },
    ),
    Definition(
        "deep",
        501,
        500,
        {"num_hidden_layers": 12, "rms_norm_eps": 3e-5, "rope_theta": 5e6, "intermediate_size": 62, "vocab_size": 257},
    ),
    Definition("bfloat16", 601, 600, {"num_hidden_layers": 2, "torch_dtype": "bfloat16"}, dtype="bfloat16"),
    Definition("biased", 701, 700, BIASED),
    Definition("multiples-of-256", 801, 1800, MULTIPLES_OF_256, files=2),
    Definition("head-dim-64", 811, 810, HEAD_DIM_64, stores_head=True),
    Definition("yarn-stated", 901, 900, YARN_STATED),
    Definition("yarn-mscale", 911, 910, YARN_MSCALE),
    Definition("generation", 990, 1990, GENERATION, stores_head=True),
    Definition("generation-encoder", 992, 1990, GENERATION, stores_head=True),
    Definition("training-tied", 931, 930, TRAINING_TIED, softening=1 / 8),
    Definition("training-untied", 941, 940, TRAINING_UNTIED, stores_head=True, softening=1 / 4),
)


def norm_weight(draw: np.random.Generator, size: int, low: float, high: float) -> Array:
    """Weights away from 1 and from each other, one in seven negative, multiples of 2^-10."""
    magnitude = np.where(draw.random(size) < 0.5, draw.uniform(low, 0.8, size), draw.uniform(1.2, high, size))
    sign = np.where(draw.random(size) < 1 / 7, -1.0, 1.0)
    grid: Array = np.round(sign * magnitude * 1024) / 1024
    return grid.astype(np.float32)


def _linear(draw: np.random.Generator, out: int, inputs: int, scale: float, blocks: int = 1) -> Array:
    """`[out, in]` with rows of RMS about scale / sqrt(in), a scale of its own for each block of rows."""
    weight = draw.standard_normal((out, inputs)) * (scale / np.sqrt(inputs))
    factors = np.exp(draw.uniform(np.log(0.6), np.log(1.7), blocks))
    scaled: Array = weight * np.repeat(factors, out // blocks)[:, None]
    return scaled.astype(np.float32)


def _embedding(seed: int, vocab: int, hidden: int) -> Array:
    draw = np.random.Generator(np.random.PCG64(seed))
    rows = draw.standard_normal((vocab, hidden)) * np.exp(draw.uniform(np.log(0.4), np.log(1.6), (vocab, 1)))
    rows[draw.random(vocab) < 0.3] += 0.7  # rows with a mean, which norms must not take away
    rows[:, [5, hidden - 2]] *= 4.0  # large channels
    rows[list(TINY_IDS)] *= np.array([[1e-3], [2e-4], [8e-4]])
    rows[-PADDING_ROWS:] *= 6.0
    rows[PAD_ID] *= 6.0
    rows[TWIN_IDS[1]] = rows[TWIN_IDS[0]]
    embedding: Array = rows.astype(np.float32)
    return embedding


def _layer(draw: np.random.Generator, config: dict[str, Any], prefix: str) -> dict[str, Array]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim") or hidden // heads
    family = FAMILIES[config["model_type"]]
    biased, out_bias = family.biases_of(bool(config.get("attention_bias")))
    site = f"{prefix}self_attn."
    tensors = {f"{prefix}input_layernorm.weight": norm_weight(draw, hidden, 0.3, 2.0)}
    for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
        scale = 1.1 if biased and name != "v" else 0.8
        tensors[f"{site}{name}_proj.weight"] = _linear(draw, count * width, hidden, scale, count)
        if biased:
            tensors[f"{site}{name}_proj.bias"] = draw.normal(0.3, 0.6, count * width).astype(np.float32)
    if family.use_qk_norm:
        tensors[f"{site}q_norm.weight"] = norm_weight(draw, width, 0.4, 2.2)
        tensors[f"{site}k_norm.weight"] = norm_weight(draw, width, 0.4, 2.2)
    tensors[f"{site}o_proj.weight"] = _linear(draw, hidden, heads * width, 0.9)
    if out_bias:
        tensors[f"{site}o_proj.bias"] = draw.normal(0.3, 0.6, hidden).astype(np.float32)
    tensors[f"{prefix}post_attention_layernorm.weight"] = norm_weight(draw, hidden, 0.3, 2.0)
    tensors[f"{prefix}mlp.gate_proj.weight"] = _linear(draw, inner, hidden, 1.2)
    tensors[f"{prefix}mlp.up_proj.weight"] = _linear(draw, inner, hidden, 0.9)
    down = _linear(draw, hidden, inner, 0.9)
    down[draw.integers(hidden)] *= 4.0
    tensors[f"{prefix}mlp.down_proj.weight"] = down
    return tensors


def draw_tensors(definition: Definition) -> dict[str, Array]:
    """Every tensor of a checkpoint under HF's name, float32, in the order of the network."""
    config = definition.full_config()
    draw = np.random.Generator(np.random.PCG64(definition.seed))
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    embedding = _embedding(definition.embedding_seed, vocab, hidden) * np.float32(definition.softening)
    tensors = {"model.embed_tokens.weight": embedding}
    for index in range(config["num_hidden_layers"]):
        tensors |= _layer(draw, config, f"model.layers.{index}.")
    tensors["model.norm.weight"] = norm_weight(draw, hidden, 0.3, 1.8)
    if definition.stores_head:
        if config["tie_word_embeddings"]:
            tensors["lm_head.weight"] = embedding
        else:
            head = _linear(draw, vocab, hidden, 2.0)
            head[-PADDING_ROWS:] *= 2.0  # more, and every greedy choice is one of these rows
            head[TWIN_IDS[1]] = head[TWIN_IDS[0]]
            tensors["lm_head.weight"] = head * np.float32(definition.softening)
    return tensors


def _save(path: Path, tensors: dict[str, Array], dtype: str) -> None:
    head = header({name: array.shape for name, array in tensors.items()}, tensors, _CODES[dtype])
    arrays = (to_bfloat16(array) if dtype == "bfloat16" else array for array in tensors.values())
    path.write_bytes(head + b"".join(array.tobytes() for array in arrays))


def refuse_existing(directory: Path) -> None:
    """Raise `ParityError` for a directory of a checkpoint that exists, because committed ones are bytes."""
    if directory.exists():
        raise ParityError(
            directory,
            "a committed checkpoint is never drawn again",
            expected="a directory that does not exist",
            got="an existing one",
            next_step="choose another name: goldens hang on the bytes of this one",
        )


def new_directory(directory: Path) -> None:
    """Make the directory of a checkpoint; `ParityError` when it exists."""
    refuse_existing(directory)
    directory.mkdir(parents=True)


def write_checkpoint(definition: Definition, directory: Path) -> None:
    """Draw one checkpoint into a new directory; `ParityError` when it exists."""
    new_directory(directory)
    tensors = draw_tensors(definition)
    text = json.dumps(definition.full_config(), indent=2, sort_keys=True)
    (directory / "config.json").write_text(text + "\n", encoding="utf-8")
    if definition.files == 1:
        _save(directory / "model.safetensors", tensors, definition.dtype)
        return
    names = sorted(tensors)
    size = -(-len(names) // definition.files)
    parts = {
        f"model-{part + 1:05}-of-{definition.files:05}.safetensors": names[part * size : (part + 1) * size]
        for part in range(definition.files)
    }
    for file, members in parts.items():
        _save(directory / file, {name: tensors[name] for name in members}, definition.dtype)
    bytes_each = SIZES_OF[_CODES[definition.dtype]]
    write_index(directory, parts, sum(array.size for array in tensors.values()) * bytes_each)
