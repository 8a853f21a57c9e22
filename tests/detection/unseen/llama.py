"""Hugging Face's Llama with a bug in it, recorded on a golden's case: ours has no such network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from detection.mutants.isolated import CHECKPOINTS
from qwen3_golden import Recording, Tensor, pattern_of, pb, tensor
from qwen3_reference.capture.models import load_reference
from qwen3_reference.capture.run import run_reference


def recorded(golden: Recording, change: Callable[[Any], None]) -> Recording:
    """Every tap of a run of the `change`d model on the golden's inputs."""
    reference = load_reference(None, CHECKPOINTS / golden.case.checkpoint[0].name)
    change(reference.decoder)
    inputs = {item.info.name: item.array for item in golden if item.info.name.startswith("input.")}
    taps: list[Tensor] = [item for item in golden if item.info.name in inputs]

    def keep(step: int, name: str, value: torch.Tensor) -> None:
        info = golden[name, step].info
        taps.append(tensor(name, value.numpy().copy(), step=step, axes=info.axes, op=info.op))

    run_reference(reference, inputs, golden.case.steps, keep)
    shown = sorted({pattern_of(item.info.name) for item in taps} - set(inputs))
    run = pb.Run(arithmetic=golden.run.arithmetic, backend=pb.FOREIGN, materialised=shown)
    return replace(golden, run=run, tensors=taps, parameters=[])
