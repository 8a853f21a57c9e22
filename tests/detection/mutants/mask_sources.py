"""Wrong masks that are no rule on cells alone: what they are made from, or when."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.mask_seeds import Cells
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder
from qwen3_encdec.modeling_qwen3_encoder import Qwen3Encoder

_PAD = 3
"""The id that fills the padding of the goldens; it also stands in the text."""


def pad_id(patch: Patch) -> None:
    def forward(plain: Any, stack: Any, input_ids: Any, attention_mask: Any, **kwargs: Any) -> Any:
        return plain(stack, input_ids=input_ids, attention_mask=attention_mask & (input_ids != _PAD), **kwargs)

    patch.wrap(Qwen3Encoder, "forward", forward)


def previous_step(patch: Patch) -> None:
    """A decode step gets the row of the step before, one visible slot wider."""
    kept: dict[int | None, torch.Tensor] = {}

    def merged(plain: Any, own: Any, theirs: Any, **kwargs: Any) -> torch.Tensor:
        mask: torch.Tensor = plain(own, theirs, **kwargs)
        before, window = kept.get(kwargs["window"]), kwargs["window"]
        kept[window] = mask
        if before is None or kwargs["past"] == 0 or kwargs["query"] > 1:
            return mask
        slots = before.shape[-1] - kwargs["encoder_length"]
        row = before[:, :, -1:]
        return torch.cat((row[..., :slots], torch.zeros_like(row[..., :1]), row[..., slots:]), dim=-1)

    patch.wrap(modeling_qwen3_decoder, "merged_mask", merged)


def stale_padding(c: Cells) -> torch.Tensor:
    """In decoding, padding as long as the prompt at the end of the keys; slots before it count as real."""
    if c.past == 0:
        return c.own
    moved = torch.ones_like(c.real)
    moved[..., 1:] = c.real[..., :-1]
    return c.causal & c.near() & moved
