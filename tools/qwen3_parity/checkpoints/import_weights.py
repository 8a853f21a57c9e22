"""An exported checkpoint back to the Hugging Face directory that it was made of, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from qwen3_golden import ParityError, pb, read_parts, verify_weights
from qwen3_golden.whole_folder import whole_folder
from qwen3_parity.checkpoints.export_weights import TOKENIZER
from qwen3_parity.checkpoints.foreign import refuse_foreign
from qwen3_parity.checkpoints.weight_remarks import remark
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.exported import files_of
from qwen3_reference.checkpoints.weights import checkpoint_message, stored_tensors


@dataclass(frozen=True)
class Imported:
    """What was written: the checkpoint, the names of its files, the number of tensors, and what is worth a look."""

    checkpoint: pb.Checkpoint
    files: Sequence[str]
    tensors: int
    remarks: Sequence[str]


def import_weights(directory: Path, out: Path, progress: Callable[[str], None] = lambda name: None) -> Imported:
    """Make the Hugging Face directory `out` of the exported checkpoint in `directory`.

    Every digest and probe is verified, and the checkpoint's digest is computed again from what was written. Raises
    `ParityError` for parts that are missing, changed or of another checkpoint, for files that belong to none, when
    `out` exists, and for a disk that is full; nothing is left behind then.
    """
    refuse_foreign(directory)
    parts = read_parts(directory)
    known = {Path(part.source).name for part in parts} | {TOKENIZER}
    if foreign := sorted(path.name for path in directory.iterdir() if path.name not in known):
        raise ParityError(
            directory,
            "there are files that belong to no exported checkpoint",
            expected=f"{len(parts)} parts and {TOKENIZER}",
            got=", ".join(foreign),
            next_step="move them elsewhere",
        )
    remarks = []
    with whole_folder(out) as folder:
        for part in parts:
            progress(f"verifying {Path(part.source).name}")
            verify_weights(part)
            lines = (remark(item.info.name, item.array, item.info.dtype, item.info.probe) for item in part)
            remarks += [line for line in lines if line]
        files = files_of(parts)
        for name, pieces in files.items():
            progress(f"writing {name}")
            with (folder / name).open("xb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
        progress("hashing what was written")
        expected = parts[0].case.checkpoint[0]
        actual = checkpoint_message(expected.role, folder, expected.name)
        if actual != expected:
            raise ParityError(
                directory,
                "the parts do not give the checkpoint that they name",
                expected=f"SHA-256 {expected.sha256.hex()} of its files",
                got=actual.sha256.hex(),
                next_step="export the checkpoint again",
            )
        if model_config(folder) != parts[0].case.config:
            raise ParityError(
                directory,
                "the parts' configuration is not that of their config.json",
                expected="the numbers of config.json in case.config",
                got="others",
                next_step="export the checkpoint again",
            )
        tensors = len(stored_tensors(folder))
    return Imported(expected, sorted(files), tensors, remarks)
