"""The reference's recording of a user's own checkpoint and texts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from qwen3_golden import Array, ParityError, pb
from qwen3_parity.judge.declared import nearest
from qwen3_parity.recording.record import ARITHMETIC
from qwen3_parity.recording.request import request_inputs, step_lengths
from qwen3_parity.recording.sizes import Lengths, expected_bytes, expected_names, work_bytes
from qwen3_reference.capture.make_golden import Way, identity
from qwen3_reference.capture.models import Loader, load_in_memory
from qwen3_reference.capture.record import record_request
from qwen3_reference.capture.sharded import gathered, load_sharded
from qwen3_reference.capture.sharded_processes import is_main, processes
from qwen3_reference.capture.work_folder import work_folder_of
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.greedy import greedy_generation
from qwen3_reference.checkpoints.stored import read_directory

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
    config: pb.ModelConfig
    lengths: Lengths
    generate: int = 0


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
    generate: int = 0,
) -> Plan:
    """Check the request and compute its size; raises `ParityError` for what cannot be run.

    `generate`: behind the prompts so many tokens are chosen, at most.
    """
    config = model_config(directory, rotate_encoder_keys=rotate_encoder_keys)
    inputs = request_inputs(source, target, config.vocab_size)
    steps: tuple[int, ...] = ()
    if target:
        steps = step_lengths(inputs["input.decoder_input_ids"].shape[1], prefill)
    encoder = inputs["input.encoder_input_ids"].shape[1] if source else 0
    taps = (*taps, "logits") if generate and taps else taps  # how near another token is, they say
    lengths = Lengths(len(source or target), encoder, (*steps, *[1] * (generate - 1)))
    arithmetic = ARITHMETIC[dtype]
    for glob in taps:
        _refuse_no_taps(glob, config, lengths)
    size = expected_bytes(config, lengths, taps, rows, arithmetic) + 8 * lengths.batch * generate
    shape = (size, config, lengths, generate)
    return Plan(directory, inputs, steps, tuple(taps), rows, dtype, rotate_encoder_keys, *shape)


def _refuse_no_taps(glob: str, config: pb.ModelConfig, lengths: Lengths) -> None:
    rows = expected_names(config, lengths, [glob])
    if all(row.op == "input" for row in rows.values()):
        names = [name for name, row in expected_names(config, lengths).items() if row.op != "input"]
        raise ParityError(
            f"--taps {glob!a}",
            "this request has no such tap, so there would be nothing to compare",
            expected=f"a glob over its {len(names)} taps; the nearest is {nearest(glob, names)}",
            got="no match",
            next_step="give another --taps",
        )


def refuse_too_large(planned: Plan, folder: Path, *, floors: bool, written: int = 0) -> None:
    """Raise `ParityError` when a file, or the disk, cannot take the recording and what it needs while it is made.

    `written` are the bytes that an interrupted run of the same request has written.
    """
    parent = next(p for p in (folder, *folder.resolve().parents) if p.exists())
    if planned.bytes >= _LARGEST:
        raise ParityError(
            folder,
            "one recording cannot be that large: the libraries of C++ and Java parse less than 2^31 bytes",
            expected=f"less than {_LARGEST:,} bytes",
            got=f"{planned.bytes:,}",
            next_step="choose fewer taps with --taps or fewer rows with --rows",
        )
    working = work_bytes(planned.config, planned.lengths, planned.bytes, ARITHMETIC[planned.dtype], floors=floors)
    needed = planned.bytes + max(0, working - written) + (1 << 20)
    free = shutil.disk_usage(parent).free
    if needed > free:
        raise ParityError(
            folder,
            "the disk is too small for this recording",
            expected=f"{needed:,} bytes free",
            got=f"{free:,}",
            next_step="choose fewer taps with --taps or rows with --rows, leave out --floors, or another --out",
        )


def models_bytes(planned: Plan) -> int:
    """Bytes of the models that the plan runs: the encoder and the decoder are two of one checkpoint."""
    both = bool(planned.lengths.encoder) + bool(planned.steps)
    return both * model_bytes(planned.directory, planned.dtype)


def is_large(planned: Plan) -> bool:
    """Whether the plan's models take more than half of the memory that is available: then they are streamed."""
    return models_bytes(planned) > available_memory() / 2


def kept_bytes(path: Path) -> int:
    """Bytes that an interrupted capture of `path` has left to go on from."""
    return sum(file.stat().st_size for file in work_folder_of(path).glob("*"))


def capture(
    planned: Plan,
    path: Path,
    *,
    floors: bool = True,
    stream: bool = False,
    progress: Callable[[str], None] = lambda stage: None,
    layers: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Record Hugging Face on the plan's inputs into `path`; see `qwen3_reference.capture.record.record_request`.

    `stream` leaves the weights on the disk but for those of the module that runs. Where torchrun has started several
    processes (inside `distributed`), they share the model, and rank 0 writes.
    """
    shared = processes() > 1
    around = gathered(planned.config) if shared else identity
    both = {name.split(".")[1].split("_")[0] for name in planned.inputs}
    record_request(
        planned.directory if "encoder" in both else None,
        planned.directory if "decoder" in both else None,
        planned.inputs,
        planned.steps,
        path,
        taps=planned.taps,
        rows=planned.rows,
        dtype=planned.dtype,
        floors=floors,
        max_new_tokens=planned.generate,
        generation=greedy_generation(planned.directory, planned.config.vocab_size) if planned.generate else None,
        rotate_encoder_keys=planned.rotate_encoder_keys,
        name=f"capture/{path.stem}",
        description="A user's own checkpoint and inputs.",
        load=load_sharded if shared else _streamed() if stream else load_in_memory,
        way=Way(progress, layers, around, writes=is_main(), resume=not shared),
    )


def _streamed() -> Loader:
    """What leaves the weights on the disk; raises `ModuleNotFoundError` without accelerate, the extra [large]."""
    from qwen3_reference.capture.streamed import load_streamed

    return load_streamed


def mode_name(planned: Plan) -> str:
    """What the plan runs, in words: encoder, causal, or encoder-decoder."""
    encoder, decoder = ("input.encoder_input_ids" in planned.inputs, "input.decoder_input_ids" in planned.inputs)
    mode = pb.ENCODER_DECODER if encoder and decoder else pb.ENCODER if encoder else pb.CAUSAL
    return pb.Mode.Name(mode).lower().replace("_", "–")


def available_memory() -> int:
    """Bytes that a program can have now: free, or held by caches that give way; all of it where that is not known."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def model_bytes(directory: Path, dtype: torch.dtype) -> int:
    """Bytes of the parameters of one model from a checkpoint; raises `ParityError` for one that cannot be read."""
    return sum(tensor.bits.size for tensor in read_directory(directory).values()) * dtype.itemsize
