"""The committed cases of models: a checkpoint is drawn once, and its golden recorded from it as often as one likes."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from qwen3_golden import pb
from qwen3_golden.errors import unwritable
from qwen3_golden.whole import temporary
from qwen3_reference.cases.models import ModelCase
from qwen3_reference.checkpoints.tiny import refuse_existing
from qwen3_reference.graph.capture import capture
from qwen3_reference.graph.load import load
from qwen3_reference.graph.tiny import tiny_inputs, tiny_model
from qwen3_reference.quiet import quiet

_TORCH = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_FILES = ("config.json", "model.safetensors")
_PREFILL = 5
"""Every position is paid for by all taps."""


def write_checkpoint(case: ModelCase, directory: Path) -> None:
    """Draw the checkpoint of a case into a new directory; `ParityError` when it exists or the disk refuses it."""
    refuse_existing(directory)
    model = tiny_model(case.family, case.seed, case.config).to(_TORCH[case.dtype])
    try:
        beside = temporary(directory)
    except OSError as error:
        raise unwritable(directory, "checkpoint", error) from None
    try:
        with quiet():
            model.save_pretrained(beside)
        for path in beside.iterdir():
            if path.name not in _FILES:
                path.unlink()
        beside.replace(directory)
    except OSError as error:
        raise unwritable(directory, "checkpoint", error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def record_model(case: ModelCase, checkpoints: Path, path: Path) -> None:
    """Record one of the reference's cases from its checkpoint in `checkpoints`, with floors."""
    directory = checkpoints / case.checkpoint
    model = load(directory, _TORCH[case.dtype])
    inputs, steps = tiny_inputs(model, case.seed, _PREFILL)
    about = pb.Case(tier=pb.TIER_MODEL, description=case.description)
    capture(model, inputs, path, steps=steps, name=case.name, checkpoint=directory, seed=case.seed, about=about)
