"""A recording in memory: the schema's metadata as protobuf messages, the tensors as NumPy arrays."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.dtypes import FLOATS, Array, to_float32

SCHEMA_MAJOR = 1
SCHEMA_MINOR = 6
MAGIC = "qwen3.golden"


def minor_of(case: pb.Case) -> int:
    """The first minor version of the schema that has every field of a recording of this case."""
    if case.mode == pb.GRAPH:
        return 6
    if case.config.rope_scaling.rope_type == "llama3":
        return 5
    if case.mode == pb.BLOCK or case.training.HasField("decoder_start_token_id"):
        return 4
    if case.mode == pb.CLASSIC_ENCODER or case.HasField("generation") or case.HasField("training"):
        return 3
    if case.mode == pb.WEIGHTS or case.config.HasField("rope_scaling"):
        return 2
    return int(case.mode == pb.TOKENIZATION)


def plain_provenance(producer: str, **more: Any) -> pb.Provenance:
    """That of a run in which no library but NumPy computes."""
    versions = {"numpy": version("numpy"), "python": platform.python_version()}
    return pb.Provenance(
        producer=producer,
        versions=[pb.Pair(key=key, value=value) for key, value in versions.items()],
        platform=f"{platform.system().lower()}-{platform.machine()}",
        **more,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One tap at one step: its metadata and its elements (bfloat16 as uint16 bits, read-only when read from a file)."""

    info: pb.Tensor
    array: Array

    @property
    def key(self) -> tuple[str, int]:
        """Tap name and step, unique in a recording."""
        return self.info.name, self.info.step

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return self.info.dtype in FLOATS

    def values(self) -> Array:
        """The elements with bfloat16 widened to float32, everything else in place."""
        return to_float32(self.array) if self.info.dtype == pb.BF16 else self.array


@dataclass(frozen=True, eq=False)
class Recording:
    """One case run once. `tokenization`, `weights` and `graph` are empty but for cases of those modes.

    `source` says where it was read from.
    """

    case: pb.Case
    provenance: pb.Provenance
    run: pb.Run
    tensors: Sequence[Tensor]
    parameters: Sequence[pb.Parameter] = ()
    tokenization: pb.Tokenization = field(default_factory=pb.Tokenization)
    weights: pb.Weights = field(default_factory=pb.Weights)
    graph: pb.Graph = field(default_factory=pb.Graph)
    source: str = "recording in memory"
    digest: bytes = b""
    _index: dict[tuple[str, int], Tensor] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {tensor.key: tensor for tensor in self.tensors})

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key in self._index

    def __getitem__(self, key: tuple[str, int]) -> Tensor:
        """The tensor of a (tap name, step); raises `KeyError`."""
        return self._index[key]

    def get(self, name: str, step: int = 0) -> Tensor | None:
        """The tensor of a tap at a step, or None."""
        return self._index.get((name, step))

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)
