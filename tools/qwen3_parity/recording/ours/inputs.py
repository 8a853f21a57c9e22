"""The inputs of a case as our model takes them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from qwen3_golden import Array


def input_tensor(inputs: Mapping[str, Array], name: str) -> torch.Tensor:
    """The input `input.<name>` of a case, a copy of its own."""
    return torch.from_numpy(inputs[f"input.{name}"].copy())


def mask_and_positions(inputs: Mapping[str, Array], stack: str) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """A stack's mask and positions `[batch, total]`, None where the model must come to them by itself.

    A mask without padding is left out, and so are positions that count the mask's tokens from 0.
    """
    mask, positions = (input_tensor(inputs, f"{stack}_{name}") for name in ("attention_mask", "position_ids"))
    counted = (mask.long().cumsum(dim=-1) - 1).clamp(min=0)
    return None if bool(mask.all()) else mask, None if torch.equal(counted, positions) else positions


def given_tokens(inputs: Mapping[str, Array], stack: str, dtype: torch.dtype) -> tuple[str, torch.Tensor]:
    """What a stack starts from: `input_ids [batch, total]`, or `inputs_embeds [batch, total, hidden]` in `dtype`."""
    if f"input.{stack}_inputs_embeds" in inputs:
        return "inputs_embeds", input_tensor(inputs, f"{stack}_inputs_embeds").to(dtype)
    return "input_ids", input_tensor(inputs, f"{stack}_input_ids")


def decoder_slots(inputs: Mapping[str, Array], mask: torch.Tensor | None, start: int, stop: int) -> torch.Tensor | None:
    """What a step sees: the padding `[batch, stop]` of `mask`, or `[batch, 1, query, stop]` of a mask given whole."""
    if "input.decoder_mask" not in inputs:
        return slots(mask, 0, stop)
    return input_tensor(inputs, "decoder_mask")[:, None, start:stop, :stop]


def slots(values: torch.Tensor | None, start: int, stop: int) -> torch.Tensor | None:
    """The slots `[batch, start:stop]` of what is given for all, None of nothing."""
    return None if values is None else values[:, start:stop]
