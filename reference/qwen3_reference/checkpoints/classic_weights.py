"""The weights of a classic encoder's directory under canonical names: the network's name, a dot, the stored name."""

from __future__ import annotations

from pathlib import Path

from qwen3_golden import pb
from qwen3_reference.checkpoints.classic_configs import classic_config
from qwen3_reference.checkpoints.stored import read_directory
from qwen3_reference.checkpoints.weights import Weights, check_finite, check_tensors


def classic_network(config: pb.ModelConfig) -> str:
    """The network's name in taps.textproto: "pre_norm" or "post_norm"."""
    return "pre_norm" if config.classic_encoder.norm_first else "post_norm"


def expected_tensors(config: pb.ModelConfig) -> dict[str, tuple[int, ...]]:
    """Stored names and shapes, in the order of the network; linear weights are `[out, in]`."""
    hidden, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {}
    if not config.classic_encoder.starts_with_hidden_states:
        shapes["embed_tokens.weight"] = config.vocab_size, hidden
        shapes["embed_positions.weight"] = config.max_position_embeddings, hidden
    for index in range(config.num_hidden_layers):
        for name, out, inputs in (
            ("self_attn.qkv_proj", 3 * hidden, hidden),
            ("self_attn.out_proj", hidden, hidden),
            ("feed_forward.linear1", inner, hidden),
            ("feed_forward.linear2", hidden, inner),
        ):
            shapes[f"layers.{index}.{name}.weight"] = out, inputs
            shapes[f"layers.{index}.{name}.bias"] = (out,)
        for name in ("norm1", "norm2"):
            shapes |= {f"layers.{index}.{name}.{part}": (hidden,) for part in ("weight", "bias")}
    if config.classic_encoder.norm_first:
        shapes |= {f"norm.{part}": (hidden,) for part in ("weight", "bias")}
    return shapes


def load_classic(directory: str | Path, dtype: pb.DType = pb.F32) -> Weights:
    """Every tensor of a directory; `ParityError` for one that is missing, extra, mis-shaped or not finite."""
    directory = Path(directory)
    config, stored = classic_config(directory), read_directory(directory)
    shapes = expected_tensors(config)
    check_tensors(directory, stored, shapes, shapes)
    check_finite(stored)
    return Weights({f"{classic_network(config)}.{name}": stored[name] for name in shapes}, dtype)
