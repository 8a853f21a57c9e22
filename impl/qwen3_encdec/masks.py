"""Masks: who sees whom as booleans, made additive exactly once.

An additive mask holds 0 where visible and `finfo.min` where hidden. Two such masks are never added (the sum overflows
to -inf and a row without a visible key becomes NaN); parts are built separately and put side by side along the keys.
"""

import torch

from .graph_capture import capturing
from .inputs import check_tensor


def additive_mask(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Booleans (True = visible) as 0 / `finfo.min` of `dtype`; a fully hidden row stays finite in softmax."""
    zeros = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return zeros.masked_fill(~visible, torch.finfo(dtype).min)


def padding_visible(mask: torch.Tensor, name: str, shape: tuple[int, int]) -> torch.Tensor:
    """A 2-D padding mask (nonzero = token) as booleans `[batch, key]`; `ValueError` on another shape or content."""
    if tuple(mask.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(mask.shape)}; expected {shape} (batch, length), or a 4-D mask")
    if mask.is_complex():
        raise ValueError(f"{name} has dtype {mask.dtype}; expected bool, integers or floats of 0 and 1")
    if mask.is_floating_point() and not capturing() and not bool(((mask == 0) | (mask == 1)).all()):
        raise ValueError(f"{name} is 2-D and floating but not 0/1; an additive mask must be 4-D")
    return mask.to(torch.bool)


def explicit_mask(mask: torch.Tensor, name: str, shape: tuple[int, int, int], dtype: torch.dtype) -> torch.Tensor:
    """A caller's 4-D mask (bool True = visible, or additive) as additive `[batch, 1 or heads, query, key]`.

    `shape` is `(batch, query, key)`; a batch of 1 and a query axis of 1 are broadcast: every query then sees the same
    keys, later ones included. -inf becomes `finfo.min`, so that a fully hidden row stays finite. `ValueError` on
    another shape, on integers, which could mean either form, and on NaN or +inf.
    """
    batch, query, key = shape
    if mask.shape[0] not in (1, batch) or mask.shape[2] not in (1, query) or mask.shape[3] != key:
        queries = query if query == 1 else f"1 or {query}"
        raise ValueError(f"{name} has shape {tuple(mask.shape)}; expected ({batch}, 1 or heads, {queries}, {key})")
    if mask.dtype == torch.bool:
        mask = additive_mask(mask, dtype)
    elif mask.is_floating_point():
        if not capturing() and not bool((mask < torch.inf).all()):
            raise ValueError(f"{name} is additive and holds NaN or +inf; expected 0 where visible, -inf where hidden")
        mask = mask.to(dtype).clamp(min=torch.finfo(dtype).min)
    else:
        raise ValueError(
            f"{name} is 4-D of dtype {mask.dtype}; expected bool (True = visible) or an additive float mask"
        )
    return mask.expand(batch, -1, query, -1)


def _check_rank(mask: torch.Tensor, name: str) -> None:
    check_tensor(mask, name)
    if mask.ndim not in (2, 4):
        raise ValueError(f"{name} has {mask.ndim} dimensions {tuple(mask.shape)}; expected 2 or 4")


def _window_visible(distance: torch.Tensor, window: int | None) -> torch.Tensor:
    return torch.ones_like(distance, dtype=torch.bool) if window is None else distance <= window


def encoder_mask(
    attention_mask: torch.Tensor | None,
    batch: int,
    length: int,
    window: int | None,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """Additive `[batch, 1 or heads, length, length]` of the bidirectional encoder.

    Key `j` is visible to query `i` when it is no padding and `|i - j| <= window` (HF's bidirectional rule, `2w + 1`
    keys). A 4-D mask is taken as it is, inside the window.
    """
    index = torch.arange(length, device=device)
    in_window = _window_visible((index[:, None] - index[None, :]).abs(), window)
    if attention_mask is None:
        return additive_mask(in_window.expand(batch, 1, -1, -1), dtype)
    _check_rank(attention_mask, "attention_mask")
    if attention_mask.ndim == 4:
        explicit = explicit_mask(attention_mask, "attention_mask", (batch, length, length), dtype)
        return explicit.masked_fill(~in_window, torch.finfo(dtype).min)
    padding = padding_visible(attention_mask, "attention_mask", (batch, length))
    return additive_mask(in_window & padding[:, None, None, :], dtype)


def encoder_hides_nothing(attention_mask: torch.Tensor | None, batch: int, length: int, window: int | None) -> bool:
    """Whether every token of the encoder sees every other: no padding, none out of the window. See `hides_nothing`."""
    if window is not None and length > window + 1:
        return False
    if attention_mask is None:
        return True
    return attention_mask.ndim == 2 and bool(padding_visible(attention_mask, "attention_mask", (batch, length)).all())


def own_mask(
    attention_mask: torch.Tensor | None,
    batch: int,
    query: int,
    past: int | torch.Tensor,
    slots: tuple[int, int],
    window: int | None,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """Additive `[batch, 1 or heads, query, key]` of the decoder's keys in its own past and present.

    Keys are the cache's `slots = (count, first)`, which may exceed what is written: slot `j` holds token
    `first + j`, visible to token `i` when `0 <= i - (first + j) < window` and it is no padding, so an unwritten slot
    never is. A 2-D mask covers past and current tokens; a 4-D mask replaces causality and padding, neither the window
    nor the rule about unwritten slots.
    """
    count, first = slots
    queries = torch.arange(query, device=device) + past
    keys = torch.arange(first, first + count, device=device)
    distance = queries[:, None] - keys[None, :]
    in_window = _window_visible(distance, None if window is None else window - 1)
    causal = in_window & (distance >= 0)
    if attention_mask is None:
        return additive_mask(causal.expand(batch, 1, -1, -1), dtype)
    _check_rank(attention_mask, "decoder attention_mask")
    if attention_mask.ndim == 4:
        explicit = explicit_mask(attention_mask, "decoder attention_mask", (batch, query, count), dtype)
        return explicit.masked_fill(~(in_window & (keys < past + query)), torch.finfo(dtype).min)
    covered = past + query if isinstance(past, int) else attention_mask.shape[1]  # a tensor cannot be compared here
    padding = padding_visible(attention_mask, "decoder attention_mask (past + current)", (batch, covered))
    unwritten = max(first + count - padding.shape[1], 0)
    padding = torch.nn.functional.pad(padding, (0, unwritten))[:, first : first + count]
    return additive_mask(causal & padding[:, None, None, :], dtype)


def memory_mask(
    attention_mask: torch.Tensor | None,
    batch: int,
    query: int,
    length: int,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """Additive `[batch, 1 or heads, query, length]` of the encoder's keys: padding alone, never causal or windowed."""
    if attention_mask is None:
        return torch.zeros(batch, 1, query, length, dtype=dtype, device=device)
    _check_rank(attention_mask, "encoder_attention_mask")
    if attention_mask.ndim == 4:
        return explicit_mask(attention_mask, "encoder_attention_mask", (batch, query, length), dtype)
    padding = padding_visible(attention_mask, "encoder_attention_mask", (batch, length))
    return additive_mask(padding[:, None, None, :].expand(-1, -1, query, -1), dtype)


def hides_nothing(
    decoder_attention_mask: torch.Tensor | None,
    encoder_attention_mask: torch.Tensor | None,
    *,
    batch: int,
    past: int | torch.Tensor,
    slots: tuple[int, int],
    encoder_length: int,
    window: int | None,
) -> bool:
    """Whether the one next token of every row sees all keys: no padding, no window's edge, no unwritten slot.

    `merged_mask` would hold zeros only. A 4-D mask is never looked into.
    """
    if slots != (past + 1, 0) or (window is not None and past >= window):
        return False
    sides = (
        (decoder_attention_mask, "decoder attention_mask (past + current)", slots[0]),
        (encoder_attention_mask, "encoder_attention_mask", encoder_length),
    )
    return all(
        mask is None or (mask.ndim == 2 and bool(padding_visible(mask, name, (batch, length)).all()))
        for mask, name, length in sides
    )


def merged_mask(
    decoder_attention_mask: torch.Tensor | None,
    encoder_attention_mask: torch.Tensor | None,
    *,
    batch: int,
    query: int,
    past: int | torch.Tensor,
    slots: tuple[int, int],
    encoder_length: int,
    window: int | None,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """Additive `[batch, 1 or heads, query, key]` of merged attention, keys `[decoder past + current ; encoder]`.

    The decoder's 4-D mask may also cover the encoder's keys (last axis `slots + encoder_length`); an encoder mask then
    hides further keys of it.
    """
    count = slots[0]
    whole = decoder_attention_mask
    memory = memory_mask(encoder_attention_mask, batch, query, encoder_length, dtype, device)
    if whole is not None and whole.ndim == 4 and encoder_length and whole.shape[-1] == count + encoder_length:
        decoder_attention_mask = whole[..., :count]
        encoder_part = explicit_mask(
            whole[..., count:], "decoder attention_mask", (batch, query, encoder_length), dtype
        )
        memory = torch.minimum(encoder_part, memory)
    decoder_mask = own_mask(decoder_attention_mask, batch, query, past, slots, window, dtype, device)
    heads = max(decoder_mask.shape[1], memory.shape[1])
    if decoder_mask.shape[1] not in (1, heads) or memory.shape[1] not in (1, heads):
        raise ValueError(
            f"the decoder's mask has {decoder_mask.shape[1]} heads, the encoder's {memory.shape[1]}; expected one"
        )
    return torch.cat((decoder_mask.expand(-1, heads, -1, -1), memory.expand(-1, heads, -1, -1)), dim=-1)
