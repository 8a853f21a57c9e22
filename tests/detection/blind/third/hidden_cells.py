"""Masks of others: padding and windows that a backend drops, and cells that are compared or multiplied wrongly."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.masks import encoder_rule, near
from detection.blind.row import row
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code


def multiplied(patch: Patch) -> None:
    """Hidden keys have a score of 0, which is a score like any."""

    def around(_plain: Any, scores: torch.Tensor, mask: Any, dtype: torch.dtype) -> torch.Tensor:
        return (scores if mask is None else scores * (mask == 0)).softmax(-1).to(dtype)

    patch.function(code.probabilities, around)


def causality_alone(cells: Cells) -> torch.Tensor:
    return cells.causal & cells.near() & torch.ones_like(cells.real)


def unwindowed(_distance: torch.Tensor, real: torch.Tensor, _window: int | None) -> torch.Tensor:
    return real[:, None]


def window_of_first_query(cells: Cells) -> torch.Tensor:
    """What the cache holds is windowed as the call's first query needs it, for all of the call's queries."""
    if cells.window is None:
        return cells.rule
    cached = (cells.key < cells.past) & (cells.past - cells.key < cells.window)
    return (cached | ((cells.key >= cells.past) & cells.causal & cells.near())) & cells.real


def same_kind(distance: torch.Tensor, real: torch.Tensor, window: int | None) -> torch.Tensor:
    """A query sees the keys that are padding if it is padding, and those that are not if it is not."""
    return near(distance, window) & (real[:, :, None] == real[:, None])


def padding_by_id(patch: Patch) -> None:
    """The prompt's mask is made from its ids: what has the padding's id is padding."""
    padding = patch.model.config.pad_token_id
    masks: list[torch.Tensor] = []

    def forward(plain: Any, *args: Any, **kwargs: Any) -> Any:
        ids = kwargs["input_ids"]
        if kwargs["past_key_values"] is None:
            masks[:] = [ids != padding]
        else:
            masks.append(torch.ones_like(ids, dtype=torch.bool))
        return plain(*args, **(kwargs | {"attention_mask": torch.cat(masks, dim=1)}))

    patch.wrap(patch.model.decoder, "forward", forward)


_MERGED, _OWN = "merged_attn.mask", "self_attn.mask"

ROWS = (
    row("E013", "scores are multiplied by the mask: hidden keys have a score of 0",
        "georg-wolflein/good-features#1", "mask values", "encdec/ragged decoder/plain", multiplied,
        "merged_attn.probs self_attn.probs"),
    row("E014", "a fused kernel knows causality alone and ignores the padding mask",
        "AI-Hypercomputer/maxtext#878", "padding", "decoder/head_dim_64_ragged decoder/ragged_decode",
        decoder_mask(rule=causality_alone), _MERGED),
    row("E015", "windows are for causal attention alone: the bidirectional encoder has none",
        "sgl-project/sglang#39298", "window", "encoder/window_odd encoder/window_even", encoder_rule(unwindowed),
        _OWN),
    row("E016", "in a chunk all queries see as far back as the chunk's first one", "pytorch/executorch#21857",
        "window", "decoder/window_chunks decoder/window_even", decoder_mask(rule=window_of_first_query), _MERGED),
    row("E017", "queries that are padding see padding instead of tokens", "Biohub/esm#299", "padding",
        "encoder/ragged encoder/window_odd", encoder_rule(same_kind), _OWN),
    row("E018", "a token of the prompt that has the padding's id is taken for padding",
        "microsoft/onnxruntime-genai#1694", "padding", "encdec/unpadded", padding_by_id,
        f"decoder.position_ids {_MERGED}"),
)  # fmt: skip
