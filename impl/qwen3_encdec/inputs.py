"""Checks of what a caller passes in, and the positions used when none are given."""

from typing import Any

import torch
from torch import nn

from .graph_capture import capturing


def check_tensor(value: Any, name: str) -> None:
    """`ValueError` unless `value` is a tensor."""
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"{name} is a {type(value).__name__}; expected a tensor")


def check_floating(values: torch.Tensor, name: str) -> None:
    """`ValueError` unless `values` is of a floating dtype."""
    if not values.is_floating_point():
        raise ValueError(f"{name} has dtype {values.dtype}; expected a floating one")


def check_dtype(values: torch.Tensor, dtype: torch.dtype, name: str) -> None:
    """`ValueError` unless `values` is of the model's dtype; under autocast, which casts, of a floating one."""
    check_floating(values, name)
    if values.dtype != dtype and not torch.is_autocast_enabled(values.device.type):
        raise ValueError(f"{name} has dtype {values.dtype}; expected the model's, {dtype}")


def _is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def check_ids(ids: torch.Tensor, vocab_size: int, name: str) -> None:
    """`ValueError` unless `ids` is `[batch, length]` of integers that are rows of the embedding.

    The values are not looked at inside a compiled graph, whose lookup refuses them.
    """
    check_tensor(ids, name)
    if ids.ndim != 2 or not _is_integer(ids.dtype):
        raise ValueError(
            f"{name} has shape {tuple(ids.shape)} and dtype {ids.dtype}; expected integers (batch, length)"
        )
    if ids.numel() == 0 or capturing():  # a graph cannot stop at what it computes
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab_size:
        bad = low if low < 0 else high
        raise ValueError(f"{name} contains id {bad}; expected 0 … vocab_size - 1 = {vocab_size - 1}")


def embed(
    input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, embed_tokens: nn.Embedding, side: str
) -> torch.Tensor:
    """The embedded input `[batch, length, hidden]`, from exactly one of ids and embeddings (else `ValueError`)."""
    if (input_ids is None) == (inputs_embeds is None):
        got = "neither" if input_ids is None else "both"
        raise ValueError(f"the {side} needs exactly one of input_ids and inputs_embeds; got {got}")
    if input_ids is not None:
        name = f"{side} input_ids"
        check_ids(input_ids, embed_tokens.num_embeddings, name)
        if input_ids.dtype not in (torch.int64, torch.int32):
            raise ValueError(f"{name} has dtype {input_ids.dtype}; expected int64 or int32")
        embedded: torch.Tensor = embed_tokens(input_ids)
        return embedded
    assert inputs_embeds is not None
    check_tensor(inputs_embeds, f"{side} inputs_embeds")
    if inputs_embeds.ndim != 3 or inputs_embeds.shape[-1] != embed_tokens.embedding_dim:
        raise ValueError(
            f"{side} inputs_embeds has shape {tuple(inputs_embeds.shape)}; "
            f"expected (batch, length, hidden_size = {embed_tokens.embedding_dim})"
        )
    check_dtype(inputs_embeds, embed_tokens.weight.dtype, f"{side} inputs_embeds")
    return inputs_embeds


def check_encoder_states(states: torch.Tensor | None, batch: int, hidden_size: int) -> torch.Tensor:
    """`ValueError` unless the decoder got encoder states `[batch, length, hidden]`; length 0 is allowed."""
    if states is None:
        raise ValueError("encoder_hidden_states is missing; pass the encoder's output (batch, length, hidden_size)")
    check_tensor(states, "encoder_hidden_states")
    if states.ndim != 3 or states.shape[0] != batch or states.shape[-1] != hidden_size:
        raise ValueError(
            f"encoder_hidden_states has shape {tuple(states.shape)}; expected ({batch}, length, {hidden_size})"
        )
    check_floating(states, "encoder_hidden_states")
    return states


def check_generation_inputs(main: torch.Tensor, name: str, others: dict[str, Any]) -> None:
    """`ValueError` unless what `generate` handles before the model sees it are tensors, and of one batch."""
    tensors = {name: main} | {
        key: others[key]
        for key in ("attention_mask", "decoder_input_ids", "decoder_attention_mask")
        if others.get(key) is not None
    }
    for key, value in tensors.items():
        check_tensor(value, key)
        if value.ndim == 0 or value.shape[0] != main.shape[0]:
            raise ValueError(
                f"{key} has shape {tuple(value.shape)}, {name} {tuple(main.shape)}; expected the same batch"
            )


def positions(
    position_ids: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
    batch: int,
    length: int,
    past: int | torch.Tensor,
    name: str,
    device: torch.device,
) -> torch.Tensor:
    """Position ids `[batch, length]` of the current tokens.

    Given ones are checked and broadcast over the batch. Otherwise a 2-D mask over past and current tokens counts tokens
    and skips padding (`cumsum - 1`, clamped at 0), so that a row alone and the same row padded get the same positions;
    without a 2-D mask they go on from the past length. Where that is a tensor (0-d, in a captured graph) a mask is
    taken to end with the current tokens.
    """
    if attention_mask is not None:
        check_tensor(attention_mask, f"the attention_mask that goes with {name}")
    if position_ids is not None:
        check_tensor(position_ids, name)
        if position_ids.ndim != 2 or position_ids.shape[0] not in (1, batch) or position_ids.shape[1] != length:
            raise ValueError(f"{name} has shape {tuple(position_ids.shape)}; expected ({batch}, {length})")
        if not _is_integer(position_ids.dtype):
            raise ValueError(f"{name} has dtype {position_ids.dtype}; expected integers")
        return position_ids.expand(batch, -1)
    if attention_mask is not None and attention_mask.ndim == 2:
        covered = past + length if isinstance(past, int) else attention_mask.shape[1]
        if tuple(attention_mask.shape) != (batch, covered):
            raise ValueError(
                f"the mask that {name} would be counted from has shape {tuple(attention_mask.shape)}; "
                f"expected ({batch}, {covered}) (batch, past + current)"
            )
        counted = attention_mask.to(torch.bool).long().cumsum(dim=-1) - 1
        return counted.clamp(min=0)[:, covered - length :]
    return (torch.arange(length, device=device) + past).expand(batch, -1)
