"""The committed cases of models: a checkpoint is drawn once, and its golden recorded from it as often as one likes."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from qwen3_golden import pb
from qwen3_golden.whole_folder import whole_folder
from qwen3_reference.cases.models import ModelCase
from qwen3_reference.checkpoints.tiny import refuse_existing
from qwen3_reference.graph.capture import capture
from qwen3_reference.graph.load import load
from qwen3_reference.graph.pooled import POOL, around
from qwen3_reference.graph.sizes import VOCABULARY
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
    if case.soft != 1:
        model.get_output_embeddings().weight.data *= case.soft
    with whole_folder(directory) as beside:
        with quiet():
            model.save_pretrained(beside)
        for path in beside.iterdir():
            if path.name not in _FILES:
                path.unlink()


def record_model(case: ModelCase, checkpoints: Path, path: Path) -> None:
    """Record one of the reference's cases from its checkpoint in `checkpoints`, with floors."""
    directory = checkpoints / case.checkpoint
    model: nn.Module = load(directory, _TORCH[case.dtype], bare=POOL in case.around)
    if case.around:
        model, inputs, steps = around(model, case.around), _padded(case), tuple[int, ...]()
    else:
        inputs, steps = tiny_inputs(model, case.seed, _PREFILL)
    about = pb.Case(tier=pb.TIER_MODEL, description=case.description)
    capture(model, inputs, path, steps=steps, name=case.name, checkpoint=directory, seed=case.seed, about=about)


def _padded(case: ModelCase) -> dict[str, torch.Tensor]:
    """Rows of ids of the case's lengths, with their mask, on the left with positions that leave padding out."""
    slots, width, left = torch.arange(max(case.lengths)), max(case.lengths), case.padding == "left"
    mask = torch.stack([slots >= width - length if left else slots < length for length in case.lengths]).long()
    drawn = torch.randint(10, VOCABULARY, mask.shape, generator=torch.Generator().manual_seed(case.seed))
    inputs = {"input_ids": drawn * mask, "attention_mask": mask}
    return inputs | ({"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if left else {})
