"""A case run on a device in one of the ways, and judged there as anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from transformers import AutoModelForCausalLM

from detection.devices.tf32 import in_tf32
from detection.devices.ways import HUGGING_FACE, Way, products_in_tf32
from detection.honest.backends import compiled, outside_of_layers
from detection.honest.ours import Patch, ours
from qwen3_golden import Recording, pb, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.case import golden as case_of
from qwen3_parity.recording.ours.network import EncoderDecoder, golden_dtype
from qwen3_parity.recording.record import record
from qwen3_parity.recording.wired import record_module
from qwen3_reference.caches import CACHE


@dataclass(frozen=True)
class Row:
    """One case in one way. `verdicts` is None where it was not run, and `reason` says why."""

    way: Way
    case: str
    dtype: str
    verdicts: Verdicts | None
    reason: str = ""


def applies(way: Way, golden: Recording) -> bool:
    """Whether a way runs a case: forwards of a network alone; TF32 is a way to run float32."""
    case = golden.case
    modes = (pb.CAUSAL,) if way.model == HUGGING_FACE else (pb.ENCODER, pb.CAUSAL, pb.ENCODER_DECODER)
    if case.mode not in modes or case.HasField("generation") or case.HasField("training") or case.max_new_tokens:
        return False
    return golden.run.arithmetic == pb.ARITHMETIC_F32 or not way.tf32


def judged(way: Way, path: Path, device: torch.device, out: Path, checkpoints: Path, model: Path | None = None) -> Row:
    """Run a golden's case on a device and check it; what the device or torch refuses is the row's reason.

    A run with TF32 is judged by the floors of TF32, every other by the golden's own.
    """
    golden = read(path, digests=True)
    dtype = golden_dtype(golden)
    file = out / f"{way.name.replace(' ', '-')}-{golden.case.name.replace('/', '-')}.pb"
    write = _theirs if way.model == HUGGING_FACE else _ours
    try:
        with products_in_tf32(way.tf32), way.around():
            write(way, path, device, dtype, file, checkpoints, model)
    except Exception as error:  # whatever a kernel raises: it has no such shape, type or mask
        return Row(way, golden.case.name, _short(dtype), None, _first_line(error.__cause__ or error))
    weights = weights_of(golden, checkpoints, model)
    if way.tf32:
        return Row(way, golden.case.name, "TF32", check(in_tf32(golden, weights), file))
    return Row(way, golden.case.name, _short(dtype), check(golden, file, weights))


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def moved(device: torch.device, also: Any, runner: EncoderDecoder) -> Iterable[Patch]:
    """The change that has our model on a device: its inputs follow it there."""
    network = runner.model.to(device)
    for module in (network, network.encoder, network.decoder):
        add_hook_to_module(module, AlignDevicesHook(execution_device=device, skip_keys=CACHE), append=True)
    return tuple(also(runner))


def _ours(
    way: Way, path: Path, device: torch.device, dtype: torch.dtype, file: Path, checkpoints: Path, model: Path | None
) -> None:
    whole = way.attention == "compiled"
    also = compiled if whole else lambda _runner: ()
    change = partial(moved, device, also)
    build = (
        ours(change, run={"backend": pb.COMPILED}, shows=outside_of_layers)
        if whole
        else ours(change, backend=way.attention)
    )
    record(read(path), file, build(dtype), checkpoints=checkpoints, model=model)


def _theirs(
    way: Way, path: Path, device: torch.device, dtype: torch.dtype, file: Path, checkpoints: Path, model: Path | None
) -> None:
    case = case_of(path, model=model)
    attention = {"flex": "flex_attention"}.get(way.attention, way.attention)
    network = AutoModelForCausalLM.from_pretrained(
        case.checkpoint, attn_implementation=attention, dtype=dtype, local_files_only=True
    )
    network = network.train(False).to(device)
    with torch.no_grad(), record_module(network, case, path=file):
        cache = None
        for step in case.steps:
            cache = network(**_on(device, step), **{CACHE: cache}, use_cache=True)[CACHE]


def _on(device: torch.device, arguments: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.to(device) for name, value in arguments.items()}
