"""The parameters of a golden of mode GRAPH, from its checkpoint: without torch, and of any network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from qwen3_golden import Array, ParityError, Recording, pb, refusals
from qwen3_golden.dtypes import FLOATS
from qwen3_golden.rules import is_plain_name
from qwen3_reference.checkpoints.every_tensor import every_tensor
from qwen3_reference.checkpoints.parameters_of_run import ParametersOfRun
from qwen3_reference.checkpoints.runs import overlap, piece_of, place_of
from qwen3_reference.checkpoints.stored import Stored
from qwen3_reference.checkpoints.weights import check_finite, checkpoint_message

_STORED = {pb.ARITHMETIC_BF16: pb.BF16, pb.ARITHMETIC_F16: pb.F16, pb.ARITHMETIC_F64: pb.F64}
_refuse = refusals("give the checkpoint that the golden was captured from with --model, or capture the golden again")


def graph_weights(golden: Recording, root: Path, model: Path | None = None) -> Mapping[str, Array]:
    """The parameters of the graph by name, of a directory as `directory_of` finds it.

    Raises `ParityError` for a checkpoint that is missing or another one, and as `weights_in`.
    """
    directory = directory_of(golden, root, model)
    if directory is None:
        names = ", ".join(ascii(checkpoint.name) for checkpoint in golden.case.checkpoint) or "none, by the golden"
        rule = "the checkpoint of the golden's model is not there"
        expected = f"a Hugging Face directory of the case's digest: {names}"
        raise _refuse(golden.case.name, rule, expected, f"none below {root}, none beside the golden")
    return weights_in(golden, directory)


def weights_in(golden: Recording, directory: Path) -> Mapping[str, Array]:
    """The parameters of the graph by name, of a directory that is known to be the golden's.

    Raises `ParityError` for a checkpoint that is damaged, and for a parameter that it does not have, or has in another
    shape or dtype.
    """
    stored, stated = every_tensor(directory), {entry.name: entry for entry in golden.parameters}
    default = _STORED.get(golden.run.arithmetic, pb.F32)
    parts = {
        leaf.name: _parts(directory, leaf, stored, stated.get(leaf.name), default) for leaf in golden.graph.parameter
    }
    every = {piece: piece_of(stored, piece) for leaf in golden.graph.parameter for piece in _pieces(leaf)}
    check_finite({piece: tensor for piece, tensor in every.items() if _float(tensor)})
    return ParametersOfRun(parts)


def directory_of(golden: Recording, root: Path, model: Path | None = None) -> Path | None:
    """Where the checkpoint of a golden is: `model`, or its folder below `root`, or where the golden itself lies.

    None where no directory has the case's digest. Raises `ParityError` for a `model` that is another one.
    """
    checkpoint = next(iter(golden.case.checkpoint), pb.Checkpoint())
    if model is not None:
        if not _is(model, checkpoint, strict=True):
            rule = f"this is not the checkpoint {checkpoint.name!a} that {golden.case.name} was captured from"
            raise _refuse(model, rule, "config and weights of the digest that the case states", "others")
        return model
    if not golden.case.checkpoint:
        return None
    source = Path(golden.source)
    beside = [source.parent] if source.is_file() else []
    if is_plain_name(checkpoint.name):
        beside = [folder / checkpoint.name for folder in (root, *beside)] + beside
    return next((folder for folder in beside if _is(folder, checkpoint)), None)


def _is(folder: Path, checkpoint: pb.Checkpoint, *, strict: bool = False) -> bool:
    """Whether a folder holds a checkpoint, by the digest that the case states; without a digest it is believed."""
    try:
        return checkpoint_message("", folder, "").sha256 == checkpoint.sha256 or not checkpoint.sha256
    except (ParityError, OSError):
        if strict:
            raise
        return False


def _pieces(leaf: pb.GraphLeaf) -> Sequence[str]:
    return leaf.piece or [leaf.name]


def _float(tensor: Stored) -> bool:
    return tensor.dtype in FLOATS


def _parts(
    directory: Path, leaf: pb.GraphLeaf, stored: Mapping[str, Stored], stated: pb.Parameter | None, default: pb.DType
) -> tuple[Sequence[Stored], tuple[int, ...], pb.DType]:
    """The tensors of a parameter, its shape and its dtype in the run."""
    names = _pieces(leaf)
    missing = [name for name in names if place_of(stored, name) is None]
    if missing or overlap(stored, names):
        expected = f"{len(names)} tensors or runs of them, each once: {', '.join(names[:4])}"
        raise _refuse(directory, f"{leaf.name} is not in the checkpoint", expected, f"no {', '.join(missing[:4])}")
    tensors = [piece_of(stored, name) for name in names]
    shape, dtype = _said(leaf, stated, tensors, default)
    if prod(shape) != sum(tensor.bits.size for tensor in tensors) or (
        not leaf.piece and tensors[0].bits.shape != shape
    ):
        got = ", ".join(str(list(tensor.bits.shape)) for tensor in tensors[:4])
        raise _refuse(directory, f"{leaf.name} has another shape than the golden says", list(shape), got)
    if any(_float(tensor) != (dtype in FLOATS) or (not _float(tensor) and tensor.dtype != dtype) for tensor in tensors):
        got = ", ".join(pb.DType.Name(tensor.dtype) for tensor in tensors[:4])
        raise _refuse(
            directory, f"{leaf.name} has another kind of numbers than the golden says", pb.DType.Name(dtype), got
        )
    return tensors, shape, dtype


def _said(
    leaf: pb.GraphLeaf, stated: pb.Parameter | None, tensors: Sequence[Stored], default: pb.DType
) -> tuple[tuple[int, ...], pb.DType]:
    """Shape and dtype of a parameter: as the recording states them, else the graph, else as stored."""
    if stated is not None:
        return tuple(stated.shape), stated.dtype
    dtype = default if _float(tensors[0]) else tensors[0].dtype
    if leaf.dtype:
        return tuple(leaf.shape), dtype
    if len(tensors) > 1:
        rule = "the golden does not say the shape of a parameter of several tensors"
        raise _refuse(leaf.name, rule, "a shape", "none")
    return tensors[0].bits.shape, dtype
