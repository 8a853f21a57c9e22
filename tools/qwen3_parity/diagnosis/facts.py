"""What is known of the steps, layers, batch rows and tokens of a case: lengths, pasts, padding, windows, ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from qwen3_golden import Array, Recording, pb
from qwen3_parity.diagnosis.when import Fact

_BLOCKS = (2, 4, 8, 16)
"""Sizes that kernels and pages have."""
_COUNTED = ("", "", "second", "third", "fourth", "fifth", "sixth")


class Tokens(NamedTuple):
    """The tokens of a stack: `real` `[batch, slot]`, True = no padding; `ids` of the same shape, None without any."""

    real: Array
    ids: Array | None


def tokens_of(golden: Recording, encoder: bool) -> Tokens | None:
    """The tokens of the encoder, or of the stack that is run in steps; None for a case without."""
    for prefix in ("input.encoder_" if encoder else "input.decoder_", "input."):
        ids, mask = (golden.get(f"{prefix}{name}") for name in ("input_ids", "attention_mask"))
        if mask is not None and mask.array.ndim == 2:
            same = ids is not None and ids.array.shape == mask.array.shape
            return Tokens(mask.array.astype(bool), ids.array if same and ids is not None else None)
        if ids is not None and ids.array.ndim == 2:
            return Tokens(np.ones(ids.array.shape, bool), ids.array)
    return None


def numbers_of(golden: Recording) -> tuple[int, Sequence[str]]:
    """The sliding window of a case's model (0: none), and the kind of each layer."""
    if golden.case.mode != pb.GRAPH:
        return golden.case.config.sliding_window, golden.case.config.layer_types
    try:
        config: Any = json.loads(golden.graph.config)
        config = config.get("text_config", config)
        return int(config.get("sliding_window") or 0), [str(kind) for kind in config.get("layer_types") or ()]
    except (AttributeError, OverflowError, RecursionError, TypeError, ValueError):  # somebody's own golden
        return 0, ()


def of_steps(steps: Sequence[int], golden: Recording) -> list[Fact]:
    """Facts of these steps of a case."""
    lengths = golden.case.steps
    if any(step >= len(lengths) for step in steps):
        return []
    new = np.array([lengths[step] for step in steps])
    total = np.array([sum(lengths[: step + 1]) for step in steps])
    window, _ = numbers_of(golden)
    facts = [
        Fact("with a past", "without a past", 1, total > new),
        Fact("of one token", "of several tokens", 2, new == 1),
        Fact("reaching beyond the window", "within the window", 2, (total > window) & (window > 0)),
    ]
    for n in _BLOCKS:
        for text, count, bits in (("length", total, 4), ("past", total - new, 5), ("new tokens", new, 5)):
            verb = "are" if text == "new tokens" else "is"
            facts.append(
                Fact(
                    f"whose {text} {verb} a multiple of {n}",
                    f"whose {text} {verb} no multiple of {n}",
                    bits,
                    count % n == 0,
                )
            )
    return facts


def of_layers(layers: Sequence[int], golden: Recording) -> list[Fact]:
    """Facts of these layers of a model."""
    numbers, (_, kinds) = np.array(layers), numbers_of(golden)
    facts = list[Fact]()
    if all(layer < len(kinds) for layer in layers):
        sliding = np.array([kinds[layer] == "sliding_attention" for layer in layers])
        facts.append(Fact("with a window", "without a window", 1, sliding))
    for n in range(2, len(_COUNTED)):
        for first in range(n):
            text, holds = f"{first}, {first + n}, … (every {_COUNTED[n]})", numbers % n == first
            if holds.sum() > 1:  # one layer is no series
                facts.append(Fact(text, f"other than {text}", 2 + np.log2(n), holds))
    return facts


def of_rows(real: Array) -> list[Fact]:
    """Facts of the rows of a batch, `real` `[batch, slot]`."""
    count = real.sum(axis=1)
    facts = [
        Fact("with padding", "without padding", 1, np.asarray(~real.all(axis=1))),
        Fact("with padding on the left", "without padding on the left", 2, ~real[:, 0]),
        Fact("with padding on the right", "without padding on the right", 2, ~real[:, -1]),
    ]
    for n in _BLOCKS:
        text = f"multiple of {n} real tokens"
        facts.append(Fact(f"of a {text}", f"of no {text}", 5, count % n == 0))
    return facts


def of_indices(size: int) -> list[Fact]:
    """Facts of the numbers 0 to `size` - 1 as kernels divide them."""
    numbers = np.arange(size)
    facts = [Fact("of even number", "of odd number", 3, numbers % 2 == 0)]
    for n in _BLOCKS[1:]:
        whole = size // n * n
        bits = 4 if n < size else 5  # of 0 alone, which needs no word
        facts += [
            Fact(f"whose number is a multiple of {n}", f"whose number is no multiple of {n}", bits, numbers % n == 0),
            Fact(f"ending a block of {n}", f"ending no block of {n}", 5, numbers % n == n - 1),
            Fact(f"behind the last whole block of {n}", f"in whole blocks of {n}", 4, numbers >= whole),
        ]
    return facts


def of_keys(size: int) -> list[Fact]:
    """Which of the keys is this step's own, where a step has one."""
    return [Fact("that is the newest", "that is older than the newest", 3, np.arange(size) == size - 1)]


def of_slots(steps: Sequence[int]) -> list[Fact]:
    """Facts of the slots that these steps fill, each within its step."""
    within = np.concatenate([np.arange(length) for length in steps])
    length = np.repeat(np.array(steps), steps)
    facts = [
        Fact("beginning a step", "not beginning a step", 4, within == 0),
        Fact("ending a step", "not ending a step", 4, within == length - 1),
    ]
    for n in _BLOCKS[1:]:
        text = f"whole blocks of {n} of their step"
        facts.append(Fact(f"behind the {text}", f"in {text}", 4, within >= length // n * n))
    return facts


def of_tokens(tokens: Tokens, window: int) -> list[Fact]:
    """Facts of single tokens, `[batch, slot]`."""
    real = tokens.real
    position = np.where(real, np.cumsum(real, axis=1) - 1, -1)
    facts = [
        Fact("that are the first of their row", "that are not the first of their row", 3, position == 0),
        Fact("that are the last of their row", "that are not the last of their row", 3,
             real & (position == position.max(axis=1, keepdims=True))),
    ]  # fmt: skip
    if window:
        facts.append(Fact("with more tokens before them than the window", "within the window", 3, position >= window))
    for n in _BLOCKS:
        text = f"multiple of {n}"
        facts.append(Fact(f"whose position is a {text}", f"whose position is no {text}", 5, real & (position % n == 0)))
    return [*facts, *_of_ids(tokens)]


def _of_ids(tokens: Tokens) -> Iterator[Fact]:
    if tokens.ids is None:
        return
    ids, real = tokens.ids, tokens.real
    same = (ids[:, :, None] == ids[:, None, :]) & real[:, :, None] & real[:, None, :]
    earlier = np.tril(same, -1).any(axis=2)
    yield Fact("whose id stands earlier in their row", "whose id is new to their row", 3, earlier)
    later = np.triu(same, 1).any(axis=2)
    yield Fact("whose id comes again in their row", "whose id does not come again in their row", 3, later)
    yield Fact("whose id the batch has twice", "whose id the batch has once", 3, real & (counts_of(tokens, ids) > 1))


def counts_of(tokens: Tokens, ids: Array) -> Array:
    """How often each of these ids stands in the batch, padding aside."""
    assert tokens.ids is not None
    values, counts = np.unique(tokens.ids[tokens.real], return_counts=True)
    if not len(values):
        return np.zeros(ids.shape, int)
    at = np.searchsorted(values, ids).clip(0, len(values) - 1)
    return np.where(values[at] == ids, counts[at], 0)


def of_vocabulary(tokens: Tokens, size: int) -> list[Fact]:
    """Facts of the ids of a vocabulary."""
    if tokens.ids is None:
        return []
    counts = counts_of(tokens, np.arange(size))
    return [
        Fact("that the batch has", "that the batch does not have", 2, counts > 0),
        Fact("that the batch has twice", "that the batch does not have twice", 2, counts > 1),
    ]
