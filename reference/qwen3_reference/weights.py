"""The weights of one or two checkpoint directories under canonical names: the tap that uses them, .weight or .bias."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from qwen3_golden import Array, ParityError, pb
from qwen3_reference.configs import hf_config, model_config, spec_config
from qwen3_reference.stored import Stored, read_directory, weight_files

__all__ = ["Weights", "checkpoint_message", "hf_config", "load_weights", "model_config", "parameters", "spec_config"]

_HEAD = "lm_head.weight"
_EMBEDDING = "model.embed_tokens.weight"


def expected_tensors(config: pb.ModelConfig) -> dict[str, tuple[int, ...]]:
    """HF's tensor names and shapes for a configuration, without the LM head; linear weights are `[out, in]`."""
    hidden, inner, width = config.hidden_size, config.intermediate_size, config.head_dim
    queries, keys = config.num_attention_heads * width, config.num_key_value_heads * width
    shapes: dict[str, tuple[int, ...]] = {_EMBEDDING: (config.vocab_size, hidden)}
    for index in range(config.num_hidden_layers):
        layer = f"model.layers.{index}."
        shapes[f"{layer}input_layernorm.weight"] = (hidden,)
        for name, out in (("q", queries), ("k", keys), ("v", keys)):
            shapes[f"{layer}self_attn.{name}_proj.weight"] = (out, hidden)
            if config.attention_bias:
                shapes[f"{layer}self_attn.{name}_proj.bias"] = (out,)
        shapes[f"{layer}self_attn.o_proj.weight"] = (hidden, queries)
        if config.attention_out_bias:
            shapes[f"{layer}self_attn.o_proj.bias"] = (hidden,)
        if config.use_qk_norm:
            shapes[f"{layer}self_attn.q_norm.weight"] = (width,)
            shapes[f"{layer}self_attn.k_norm.weight"] = (width,)
        shapes[f"{layer}post_attention_layernorm.weight"] = (hidden,)
        shapes[f"{layer}mlp.gate_proj.weight"] = (inner, hidden)
        shapes[f"{layer}mlp.up_proj.weight"] = (inner, hidden)
        shapes[f"{layer}mlp.down_proj.weight"] = (hidden, inner)
    shapes["model.norm.weight"] = (hidden,)
    return shapes


def canonical(role: str, name: str) -> str:
    """HF's tensor name -> the canonical name in the stack of `role` ("encoder" or "decoder")."""
    if name == _HEAD:
        return _HEAD
    own = f"{role}.{name.removeprefix('model.')}"
    return own.replace(".self_attn.", ".merged_attn.") if role == "decoder" else own


def _checked(directory: Path) -> dict[str, Stored]:
    """Every tensor of a directory, the tied head resolved; missing, extra and mis-shaped ones are refused by name."""
    config = model_config(directory)
    stored = read_directory(directory)
    shapes = expected_tensors(config)
    allowed = {**shapes, _HEAD: shapes[_EMBEDDING]}
    required = shapes if config.tie_word_embeddings else allowed

    def refuse(rule: str, expected: object, got: object) -> ParityError:
        return ParityError(
            directory, rule, expected=expected, got=got, next_step="check config.json against the weights"
        )

    if missing := sorted(required.keys() - stored.keys()):
        raise refuse("tensors are missing", ", ".join(missing), f"{len(stored)} others")
    if extra := sorted(stored.keys() - allowed.keys()):
        raise refuse("tensors that the network does not have", f"{len(required)} others", ", ".join(extra))
    for name, tensor in stored.items():
        if tensor.bits.shape != allowed[name]:
            raise refuse(f"{name} has another shape than config.json says", allowed[name], tensor.bits.shape)
    if config.tie_word_embeddings:
        head = stored.setdefault(_HEAD, stored[_EMBEDDING])
        if not np.array_equal(head.bits, stored[_EMBEDDING].bits):
            raise refuse(
                "the head is tied but stored with other values", f"{_HEAD} equal to {_EMBEDDING}", "they differ"
            )
    return {name: stored[name] for name in allowed}


class Weights(Mapping[str, Array]):
    """Canonical name -> float32 values, widened at each access and not kept: a model's size in memory is not doubled.

    `stored` has the tensors as they are on disk. `dtype` (F32, BF16, F16) is the model's: values are what such a model
    holds after loading, in float32.
    """

    def __init__(self, stored: Mapping[str, Stored], dtype: pb.DType = pb.F32) -> None:
        self.stored = stored
        self.dtype = dtype

    def __getitem__(self, name: str) -> Array:
        tensor = self.stored[name]
        if self.dtype in (pb.F32, tensor.dtype):
            return tensor.float32()
        return Stored(self.dtype, tensor.loaded(self.dtype), tensor.file).float32()

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


def load_weights(
    encoder_directory: str | Path | None, decoder_directory: str | Path | None, dtype: pb.DType = pb.F32
) -> Weights:
    """The weights of the stacks that are given; a user's checkpoint is both. `ParityError` for a broken checkpoint.

    An encoder's directory may store an LM head, which is checked and left out. Two directories must have the same
    configuration and bit-equal embeddings: the encoder-decoder has one embedding.
    """
    stored: dict[str, Stored] = {}
    for role, directory in (("encoder", encoder_directory), ("decoder", decoder_directory)):
        if directory is not None:
            tensors = _checked(Path(directory))
            stored |= {canonical(role, n): t for n, t in tensors.items() if role == "decoder" or n != _HEAD}
    if encoder_directory is not None and decoder_directory is not None:
        _check_pair(Path(encoder_directory), Path(decoder_directory), stored)
    return Weights(stored, dtype)


def _check_pair(encoder: Path, decoder: Path, stored: Mapping[str, Stored]) -> None:
    ours, theirs = model_config(encoder), model_config(decoder)
    different = [
        field.name for field, _ in theirs.ListFields() if getattr(ours, field.name) != getattr(theirs, field.name)
    ]
    if ours != theirs:
        raise ParityError(
            encoder,
            "encoder and decoder have different configurations",
            expected=f"the configuration of {decoder}",
            got="different " + ", ".join(different),
            next_step="use two checkpoints of one configuration",
        )
    tables = [stored[f"{role}.embed_tokens.weight"] for role in ("encoder", "decoder")]
    if tables[0].dtype != tables[1].dtype or not np.array_equal(tables[0].bits, tables[1].bits):
        raise ParityError(
            encoder,
            "encoder and decoder have different embeddings",
            expected=f"embed_tokens bit-equal to that of {decoder}",
            got="they differ",
            next_step="use two checkpoints that share their embeddings",
        )


def parameters(weights: Weights) -> list[pb.Parameter]:
    """A digest of every parameter as a model of the weights' dtype holds it, sorted by canonical name."""
    known: dict[tuple[Path, int], bytes] = {}  # a checkpoint in both roles, a tied head: hashed once
    result = []
    for name in sorted(weights):
        tensor = weights.stored[name]
        place = (tensor.file, tensor.bits.ctypes.data)
        if place not in known:
            content = np.ascontiguousarray(tensor.loaded(weights.dtype)).reshape(-1).view(np.uint8).data
            known[place] = hashlib.sha256(content).digest()
        result.append(pb.Parameter(name=name, dtype=weights.dtype, shape=tensor.bits.shape, sha256=known[place]))
    return result


def checkpoint_message(role: str, directory: str | Path, name: str) -> pb.Checkpoint:
    """Which checkpoint a case used: the digest is over the sorted lines "sha256  file name" of config and weights."""
    directory = Path(directory)
    files = [directory / "config.json", *weight_files(directory)]
    index = directory / "model.safetensors.index.json"
    files += [index] if index.exists() else []
    lines = []
    for path in files:
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    digest = hashlib.sha256("".join(sorted(lines)).encode()).digest()
    return pb.Checkpoint(role=role, name=name, sha256=digest)
