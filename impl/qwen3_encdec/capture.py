"""While `torch.compile` or `torch.export` captures a graph, nothing may branch on the values in a tensor.

Checks of values are left out there, checks of shapes stay; the length of a static cache stays a tensor, so that one
graph serves every step.
"""

import torch

from . import inputs


def capturing() -> bool:
    """Whether the code at hand is being traced into a graph."""
    return torch.compiler.is_compiling()


def positions(
    position_ids: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
    batch: int,
    length: int,
    past: int | torch.Tensor,
    name: str,
    device: torch.device,
) -> torch.Tensor:
    """`inputs.positions`, also for a `past` that is a tensor: a mask is then taken to end with the current tokens."""
    if isinstance(past, int):
        return inputs.positions(position_ids, attention_mask, batch, length, past, name, device)
    if position_ids is None and attention_mask is not None and attention_mask.ndim == 2:
        covered = attention_mask.shape[1]
        return inputs.positions(None, attention_mask, batch, covered, 0, name, device)[:, covered - length :]
    if position_ids is None:
        position_ids = (torch.arange(length, device=device) + past)[None]
    return inputs.positions(position_ids, None, batch, length, 0, name, device)
