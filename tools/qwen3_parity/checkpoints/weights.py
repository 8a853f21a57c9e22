"""The parameters of a recording's case, for computing its ops again, by NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, Recording, is_exported, pb
from qwen3_parity.checkpoints.foreign import refuse_foreign
from qwen3_parity.checkpoints.graph_weights import directory_of, graph_weights, weights_in

_STORED = {pb.ARITHMETIC_BF16: pb.BF16, pb.ARITHMETIC_F16: pb.F16}


def checkpoints_of(golden: Path) -> Path:
    """Where the checkpoints of a golden are: those of the committed set, or beside a golden of another place."""
    return GOLDEN_ROOT / "checkpoints" if golden.resolve().is_relative_to(GOLDEN_ROOT) else golden.parent


def checkpoint_directories(case: pb.Case, root: Path, model: Path | None = None) -> dict[str, Path]:
    """The case's checkpoint directories by role ("encoder", "decoder"), below `root`, or `model` for every role.

    Raises `ParityError` for one that is missing, or that holds another network or format.
    """
    directories = {checkpoint.role: model or root / checkpoint.name for checkpoint in case.checkpoint}
    for role, directory in directories.items():
        if case.mode != pb.GRAPH:  # any model of transformers
            refuse_foreign(directory)
        if not ((directory / "config.json").is_file() or is_exported(directory)):
            raise ParityError(
                case.name,
                f"the checkpoint of the {role} is not there",
                expected=f"a Hugging Face directory, or an exported one, at {directory}",
                got="nothing",
                next_step="give it with --model (Python: golden(…, model=…)), or its parent folder with --checkpoints",
            )
    return directories


def weights_of(recording: Recording, root: Path, model: Path | None = None) -> Mapping[str, Array]:
    """Canonical name to values, as the run's arithmetic loads them, read when they are asked for.

    The checkpoints are below `root`, or all in `model`; of mode GRAPH also where the golden lies, and the names are the
    graph's. Raises `ParityError` for one that is missing, damaged, or another one than the case was recorded from.
    """
    if recording.case.mode == pb.GRAPH:
        return graph_weights(recording, root, model)
    directories = checkpoint_directories(recording.case, root, model)
    if not directories:  # an op's case brings its parameters
        return {}
    from qwen3_reference.checkpoints.classic_weights import load_classic
    from qwen3_reference.checkpoints.weights import load_weights

    refuse_others(recording.case, root, model)
    dtype = _STORED.get(recording.run.arithmetic, pb.F32)
    if recording.case.mode == pb.CLASSIC_ENCODER:
        return load_classic(directories["encoder"], dtype)
    return load_weights(directories.get("encoder"), directories.get("decoder"), dtype, recording.case.config)


def weights_at_hand(golden: Recording, root: Path, model: Path | None = None) -> Mapping[str, Array] | None:
    """As `weights_of`, but None where no network has to be loaded, and where the case's checkpoints are not below
    `root` and no `model` is given."""
    if golden.case.mode == pb.GRAPH:
        directory = directory_of(golden, root, model)
        return None if directory is None else weights_in(golden, directory)
    directories = {checkpoint.role: root / checkpoint.name for checkpoint in golden.case.checkpoint}
    if golden.case.mode == pb.TOKENIZATION or not directories:
        return None
    if model is None and (not all(map(Path.is_dir, directories.values())) or other_checkpoints(golden.case, root)):
        return None  # also a user's own that happens to have the name of one of ours
    return weights_of(golden, root, model)


def other_checkpoints(case: pb.Case, root: Path, model: Path | None = None) -> dict[str, Path]:
    """The case's checkpoints, by name, whose directory holds other bytes than the case states; empty: all are right.

    A case of a foreign recorder may state no digest, and is believed. Raises `ParityError` as `weights_of`.
    """
    from qwen3_reference.checkpoints.weights import checkpoint_message

    directories = checkpoint_directories(case, root, model)
    known = {
        directory: checkpoint_message("", directory, "").sha256 for directory in dict.fromkeys(directories.values())
    }
    return {
        checkpoint.name: directories[checkpoint.role]
        for checkpoint in case.checkpoint
        if checkpoint.sha256 and checkpoint.sha256 != known[directories[checkpoint.role]]
    }


def refuse_others(case: pb.Case, root: Path, model: Path | None = None) -> None:
    """Raise `ParityError` for a checkpoint of the case that is another one than the case states."""
    for name, directory in other_checkpoints(case, root, model).items():
        raise ParityError(
            directory,
            f"this is not the checkpoint {name!r} that {case.name} was recorded from",
            expected="config and weights of the digest that the case states",
            got="others",
            next_step="give the case's own checkpoint with --model",
        )
