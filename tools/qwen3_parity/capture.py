"""The reference's recording of a user's own checkpoint and texts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from qwen3_golden import Array, ParityError, pb
from qwen3_parity.record import ARITHMETIC
from qwen3_parity.request import request_inputs, step_lengths
from qwen3_parity.sizes import Lengths, expected_bytes
from qwen3_reference.weights import model_config

_LARGEST = (1 << 31) - (1 << 24)  # some bytes of it are metadata


@dataclass(frozen=True)
class Plan:
    """A capture that can be made: what runs on what, and how many bytes of payload it will write."""

    directory: Path
    inputs: dict[str, Array]
    steps: tuple[int, ...]
    taps: tuple[str, ...]
    rows: int
    dtype: torch.dtype
    rotate_encoder_keys: bool
    bytes: int


def plan(
    directory: Path,
    source: Sequence[Sequence[int]],
    target: Sequence[Sequence[int]],
    *,
    prefill: int | None = None,
    taps: Sequence[str] = (),
    rows: int = 0,
    dtype: torch.dtype = torch.float32,
    rotate_encoder_keys: bool = True,
) -> Plan:
    """Check the request and compute its size; raises `ParityError` for what cannot be run."""
    config = model_config(directory, rotate_encoder_keys=rotate_encoder_keys)
    inputs = request_inputs(source, target, config.vocab_size)
    steps: tuple[int, ...] = ()
    if target:
        steps = step_lengths(inputs["input.decoder_input_ids"].shape[1], prefill)
    encoder = inputs["input.encoder_input_ids"].shape[1] if source else 0
    size = expected_bytes(config, Lengths(len(source or target), encoder, steps), taps, rows, ARITHMETIC[dtype])
    return Plan(directory, inputs, steps, tuple(taps), rows, dtype, rotate_encoder_keys, size)


def refuse_too_large(made: Plan, folder: Path, *, floors: bool) -> None:
    """Raise `ParityError` when a file, or the disk, cannot take the recording and what its floors need."""
    parent = next(p for p in (folder, *folder.resolve().parents) if p.exists())
    # beside the file itself: the same run once more before its floors are known, and the truth in float64
    if made.bytes >= _LARGEST:
        raise ParityError(
            folder,
            "one recording cannot be that large: the libraries of C++ and Java parse less than 2^31 bytes",
            expected=f"less than {_LARGEST:,} bytes",
            got=f"{made.bytes:,}",
            next_step="choose fewer taps with --taps or fewer rows with --rows",
        )
    needed = made.bytes * (4 if floors else 1) + (1 << 20)
    free = shutil.disk_usage(parent).free
    if needed > free:
        raise ParityError(
            folder,
            "the disk is too small for this recording",
            expected=f"{needed:,} bytes free",
            got=f"{free:,}",
            next_step="choose fewer taps with --taps or rows with --rows, leave out --floors, or another --out",
        )


def capture(
    made: Plan, path: Path, *, floors: bool = True, progress: Callable[[str], None] = lambda stage: None
) -> None:
    """Record Hugging Face on the plan's inputs into `path`; see `qwen3_reference.record.record_request`."""
    from qwen3_reference.record import record_request

    both = {name.split(".")[1].split("_")[0] for name in made.inputs}
    record_request(
        made.directory if "encoder" in both else None,
        made.directory if "decoder" in both else None,
        made.inputs,
        made.steps,
        path,
        taps=made.taps,
        rows=made.rows,
        dtype=made.dtype,
        floors=floors,
        rotate_encoder_keys=made.rotate_encoder_keys,
        name=f"capture/{path.stem}",
        description="A user's own checkpoint and inputs.",
        progress=progress,
    )


def mode_name(made: Plan) -> str:
    """What the plan runs, in words: encoder, causal, or encoder-decoder."""
    encoder, decoder = ("input.encoder_input_ids" in made.inputs, "input.decoder_input_ids" in made.inputs)
    mode = pb.ENCODER_DECODER if encoder and decoder else pb.ENCODER if encoder else pb.CAUSAL
    return pb.Mode.Name(mode).lower().replace("_", "–")
