"""Other inputs for a golden with a graph: rows of ids of other lengths, padded on either side, drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array, ParityError, Recording, Tensor
from qwen3_parity.conformance.graph_golden import INPUT

_LONGEST = 40
"""Positions, at most: a case is computed some twenty times."""
_POSITIONS = ("max_position_embeddings", "original_max_position_embeddings", "n_positions", "n_ctx")
SIDES = ("left", "right")


class Rows(NamedTuple):
    """How many tokens each row has, those of the decoder behind an encoder too, and on which side the padding is."""

    lengths: tuple[int, ...]
    decoded: tuple[int, ...]
    padding: str
    few: bool
    """Whether ids are few, so that tokens come again."""


class Room(NamedTuple):
    """What can be drawn for a golden: lengths from 2, sides of padding, ids below `vocabulary`; the id of padding."""

    longest: int
    sides: tuple[str, ...]
    masked: bool
    merged: bool
    vocabulary: int
    pad: int


def room_of(golden: Recording) -> Room:
    """What can be drawn for a golden; raises `ParityError` for inputs that are not ids, masks and positions."""
    inputs = {item.info.name.removeprefix(INPUT): item for item in golden if item.info.name.startswith(INPUT)}
    for name, item in inputs.items():
        if _kind(name) is None or item.array.ndim != (3 if name.endswith("position_ids") and _sections(item) else 2):
            raise ParityError(
                golden.source,
                "no other inputs can be drawn for this golden",
                expected="input_ids, attention_mask, position_ids and token_type_ids, of an encoder and a decoder",
                got=f"{name} {list(item.array.shape)}",
                next_step="capture the model on ids",
            )
    config = json.loads(golden.graph.config or "{}")
    ids, mask = inputs["input_ids"].array, inputs.get("attention_mask")
    hidden = np.zeros(ids.shape, bool) if mask is None else mask.array == 0
    placed = any(name.endswith("position_ids") for name in inputs)
    left = placed or bool(hidden[:, 0].any())
    pads = [number for number in _numbers(config, ("pad_token_id",)) if number >= 0]
    return Room(
        longest=min(_LONGEST, *_numbers(config, _POSITIONS)) if _numbers(config, _POSITIONS) else _LONGEST,
        sides=SIDES if left else SIDES[1:],
        masked=mask is not None,
        merged="decoder_input_ids" in inputs,
        vocabulary=min(_numbers(config, ("vocab_size",)) or [int(ids.max()) + 1]),
        pad=int(ids[hidden][0]) if hidden.any() else (pads or [0])[0],
    )


def inputs_of(golden: Recording, limits: Room, rows: Rows, seed: int) -> dict[str, Array]:
    """Inputs by name as a golden's are, for other rows; of an encoder–decoder both sides."""
    masks = {"": _mask(rows.lengths, rows.padding), "decoder_": _mask(rows.decoded, "right")}
    inputs = dict[str, Array]()
    for item in golden:
        name = item.info.name.removeprefix(INPUT)
        if name == item.info.name:
            continue
        side = "decoder_" if name.startswith("decoder_") else ""
        mask = masks[side or ("decoder_" if limits.merged and name.endswith("position_ids") else "")]
        inputs[name] = _input(name, item, mask, limits, rows, seed).astype(item.array.dtype)
    return inputs


def _input(name: str, item: Tensor, mask: Array, limits: Room, rows: Rows, seed: int) -> Array:
    match _kind(name):
        case "input_ids":
            draw = np.random.Generator(np.random.PCG64([seed, len(name)]))
            drawn = draw.integers(0, min(4, limits.vocabulary) if rows.few else limits.vocabulary, mask.shape)
            return np.where(mask, drawn, limits.pad)
        case "position_ids":
            positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
            return np.broadcast_to(positions, (*item.array.shape[:-2], *positions.shape))
        case "token_type_ids":
            first = np.broadcast_to(np.arange(mask.shape[1]) >= (mask.shape[1] + 1) // 2, mask.shape)
            return first & bool(item.array.any())
    return mask


def _kind(name: str) -> str | None:
    name = name.removeprefix("decoder_")
    return name if name in ("input_ids", "attention_mask", "position_ids", "token_type_ids") else None


def _sections(item: Tensor) -> bool:
    """Whether positions are several for a token, `[section, batch, query]`."""
    return item.array.ndim == 3


def _mask(lengths: Sequence[int], padding: str) -> Array:
    """`[batch, query]`, bool: True for tokens."""
    slots, width = np.arange(max(lengths, default=0)), max(lengths, default=0)
    left = padding == "left"
    return np.array([slots >= width - length if left else slots < length for length in lengths], dtype=bool)


def _numbers(config: Mapping[str, Any], keys: Sequence[str]) -> list[int]:
    """The integers that a configuration has under these keys, in parts of it too."""
    return list(_every(config, keys))


def _every(config: Mapping[str, Any], keys: Sequence[str]) -> Iterator[int]:
    for key, value in config.items():
        if key in keys and isinstance(value, int):
            yield value
        elif isinstance(value, dict):
            yield from _every(value, keys)
