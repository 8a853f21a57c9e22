"""The weights of one or two checkpoint directories under canonical names: the tap that uses them, .weight or .bias."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import numpy as np

from qwen3_golden import Array, ParityError, is_exported, pb, refusals
from qwen3_golden.regular_file import open_inside, sha256_of
from qwen3_golden.weight_axes import EMBEDDING, HEAD, axis_sizes, weight_axes
from qwen3_reference.checkpoints.exported import source_files
from qwen3_reference.checkpoints.safetensors_header import broken
from qwen3_reference.checkpoints.stored import INDEX, Stored, read_directory, weight_files
from qwen3_reference.checkpoints.widened import Widened

_refuse = refusals("check config.json against the weights")

Shape = tuple[int, ...]
_BLOCK = 1 << 22  # elements digested at a time


def expected_tensors(config: pb.ModelConfig) -> dict[str, Shape]:
    """HF's tensor names and shapes for a configuration, without the LM head; linear weights are `[out, in]`."""
    sizes = axis_sizes(config)
    shapes = {name: tuple(sizes[axis] for axis in axes) for name, axes in weight_axes(config).items()}
    del shapes[HEAD]
    return shapes


def canonical(role: str, name: str) -> str:
    """HF's tensor name -> the canonical name in the stack of `role` ("encoder" or "decoder")."""
    if name == HEAD:
        return HEAD
    full_name = f"{role}.{name.removeprefix('model.')}"
    return full_name.replace(".self_attn.", ".merged_attn.") if role == "decoder" else full_name


def check_tensors(
    directory: Path, stored: Mapping[str, Stored], required: Mapping[str, Shape], allowed: Mapping[str, Shape]
) -> None:
    """Refuse tensors that are missing, extra or mis-shaped."""
    missing, extra = sorted(required.keys() - stored.keys()), sorted(stored.keys() - allowed.keys())
    if missing:
        strange = f", and {', '.join(extra)}, which the network does not have" if extra else ""
        got = f"{len(stored) - len(extra)} others{strange}"
        raise _refuse(directory, "tensors are missing", ", ".join(missing), got)
    if extra:
        rule = "tensors that the network does not have"
        raise _refuse(directory, rule, f"{len(required)} others", ", ".join(extra))
    for name, tensor in stored.items():
        if tensor.bits.shape != allowed[name]:
            rule = f"{name} has another shape than config.json says"
            raise _refuse(directory, rule, allowed[name], tensor.bits.shape)


def check_finite(stored: Mapping[str, Stored]) -> None:
    """Refuse NaN and infinity."""
    for name, tensor in stored.items():
        if (fault := tensor.not_finite()) is not None:
            raise broken(tensor.file, f"{name} is not finite", "finite weights", "{} at {}".format(*fault))


def stored_tensors(directory: Path, config: pb.ModelConfig | None = None) -> dict[str, Stored]:
    """Every tensor that a directory stores, by HF's name: `ParityError` names what is missing, extra or mis-shaped.

    A tied head may be stored or not; one that is stored with other bits than the embedding is refused. `config` is the
    network's; without it Hugging Face reads config.json.
    """
    config = config or _config(directory)
    stored = read_directory(directory)
    shapes = expected_tensors(config)
    allowed = {**shapes, HEAD: shapes[EMBEDDING]}
    required = shapes if config.tie_word_embeddings else allowed

    check_tensors(directory, stored, required, allowed)
    if config.tie_word_embeddings and HEAD in stored and not stored[HEAD].equals(stored[EMBEDDING]):
        rule = "the head is tied but stored with other values"
        raise _refuse(directory, rule, f"{HEAD} equal to {EMBEDDING}", "they differ")
    return {name: stored[name] for name in allowed if name in stored}


def _config(directory: Path) -> pb.ModelConfig:
    from qwen3_reference.checkpoints.configs import model_config  # Hugging Face, for those who have no config yet

    return model_config(directory)


def _with_head(directory: Path, config: pb.ModelConfig | None) -> dict[str, Stored]:
    """`stored_tensors`, all of them finite, a tied head that is not stored being the embedding."""
    stored = stored_tensors(directory, config)
    check_finite(stored)
    return stored if HEAD in stored else {**stored, HEAD: stored[EMBEDDING]}


class Weights(Mapping[str, Array]):
    """Canonical name -> float32 values, widened at each access and not kept: a model's size in memory is not doubled.

    A matrix that has to be widened is a `Widened`, an array of which only the part that is looked at is made.
    `stored` has the tensors as they are on disk. `dtype` (F32, BF16, F16) is the model's: values are what such a model
    holds after loading, in float32.
    """

    def __init__(self, stored: Mapping[str, Stored], dtype: pb.DType = pb.F32) -> None:
        self.stored = stored
        self.dtype = dtype

    def __getitem__(self, name: str) -> Array:
        tensor = self.stored[name]
        if self.dtype == tensor.dtype == pb.F32:
            return tensor.bits
        values = Widened(tensor, self.dtype)
        return cast(Array, values) if values.ndim > 1 else np.asarray(values)

    @property
    def before_rounding(self) -> Weights | None:
        """The values as a float32 checkpoint has them, where the run rounded them to half precision; else None."""
        rounds = self.dtype != pb.F32 and all(tensor.dtype == pb.F32 for tensor in self.stored.values())
        return Weights(self.stored) if rounds else None

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


def load_weights(
    encoder_directory: str | Path | None,
    decoder_directory: str | Path | None,
    dtype: pb.DType = pb.F32,
    config: pb.ModelConfig | None = None,
) -> Weights:
    """The weights of the stacks that are given; a user's checkpoint is both. `ParityError` for a broken checkpoint.

    An encoder's directory may store an LM head, which is checked and left out. Two directories must have the same
    configuration and bit-equal embeddings: the encoder-decoder has one embedding. `config` is a case's, which both
    must have; without it Hugging Face reads each config.json.
    """
    stored: dict[str, Stored] = {}
    for role, directory in (("encoder", encoder_directory), ("decoder", decoder_directory)):
        if directory is not None:
            tensors = _with_head(Path(directory), config)
            stored |= {canonical(role, n): t for n, t in tensors.items() if role == "decoder" or n != HEAD}
    if encoder_directory is not None and decoder_directory is not None:
        if config is None:
            _check_configs(Path(encoder_directory), Path(decoder_directory))
        _check_embeddings(Path(encoder_directory), Path(decoder_directory), stored)
    return Weights(stored, dtype)


def _check_configs(encoder: Path, decoder: Path) -> None:
    ours, theirs = _config(encoder), _config(decoder)
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


def _check_embeddings(encoder: Path, decoder: Path, stored: Mapping[str, Stored]) -> None:
    if not stored["encoder.embed_tokens.weight"].equals(stored["decoder.embed_tokens.weight"]):
        raise ParityError(
            encoder,
            "encoder and decoder have different embeddings",
            expected=f"embed_tokens bit-equal to that of {decoder}",
            got="they differ",
            next_step="use two checkpoints that share their embeddings",
        )


def _digest(tensor: Stored, dtype: pb.DType) -> bytes:
    """The SHA-256 of the elements that a model of `dtype` holds, some of them at a time."""
    digest, elements = hashlib.sha256(), tensor.bits.reshape(-1)
    for start in range(0, elements.size, _BLOCK):
        part = Stored(tensor.dtype, elements[start : start + _BLOCK], tensor.file)
        digest.update(np.ascontiguousarray(part.loaded(dtype)).view(np.uint8).data)
    return digest.digest()


def parameters(weights: Weights) -> list[pb.Parameter]:
    """A digest of every parameter as a model of the weights' dtype holds it, sorted by canonical name."""
    known: dict[tuple[Path, int], bytes] = {}  # a checkpoint in both roles, a tied head: hashed once
    result = []
    for name in sorted(weights):
        tensor = weights.stored[name]
        place = (tensor.file, tensor.bits.ctypes.data)
        if place not in known:
            known[place] = _digest(tensor, weights.dtype)
        result.append(pb.Parameter(name=name, dtype=weights.dtype, shape=tensor.bits.shape, sha256=known[place]))
    return result


def checkpoint_message(role: str, directory: str | Path, name: str) -> pb.Checkpoint:
    """Which checkpoint a case used: the digest is over the sorted lines "sha256  file name" of config and weights.

    An exported checkpoint has the digest of the directory that it was made of.
    """
    directory = Path(directory)
    digests = _exported_digests(directory) if is_exported(directory) else _file_digests(directory)
    lines = "".join(sorted(f"{digest}  {file}\n" for file, digest in digests.items()))
    return pb.Checkpoint(role=role, name=name, sha256=hashlib.sha256(lines.encode("utf-8", "surrogateescape")).digest())


def _file_digests(directory: Path) -> dict[str, str]:
    """File name -> SHA-256 in hexadecimal, of config.json, the index and the weights."""
    index = directory / INDEX
    digests = {}
    for path in (directory / "config.json", *weight_files(directory), *([index] if index.exists() else [])):
        with open_inside(path) as file:
            digests[path.name] = sha256_of(file)
    return digests


def _exported_digests(directory: Path) -> dict[str, str]:
    digests = {}
    for name, pieces in source_files(directory).items():
        if name.endswith(".safetensors") or name in ("config.json", INDEX):
            digest = hashlib.sha256()
            for piece in pieces:
                digest.update(piece)
            digests[name] = digest.hexdigest()
    return digests
