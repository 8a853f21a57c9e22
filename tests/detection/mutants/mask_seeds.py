"""How a wrong mask is put into the implementation: as a rule on cells, in the place of the right one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import masks, modeling_qwen3_decoder


@dataclass(frozen=True)
class Cells:
    """What a rule decides on.

    `query [query, 1]` and `key [1, key]` are slots, `past` how many slots older calls filled, `real [batch, 1, key]`
    where a key is no padding; `window` is None where there is none. For the encoder's half of merged attention `key`
    counts the encoder's slots and `real` is its padding.
    """

    query: torch.Tensor
    key: torch.Tensor
    past: int
    real: torch.Tensor
    window: int | None

    @property
    def distance(self) -> torch.Tensor:
        """Query slot minus key slot."""
        return self.query - self.key

    @property
    def causal(self) -> torch.Tensor:
        """Not later than the query."""
        return self.distance >= 0

    def near(self, more: int = 0) -> torch.Tensor:
        """The decoder's window: distance below it and `more`."""
        return self.distance < self.window + more if self.window else torch.ones_like(self.causal)

    @property
    def rule(self) -> torch.Tensor:
        """The right rule of the decoder's own half."""
        return self.causal & self.near() & self.real


Rule = Callable[[Cells], torch.Tensor]
"""Which cells are visible, broadcastable to `[batch, query, key]`."""


def _real(mask: torch.Tensor | None, batch: int, length: int) -> torch.Tensor:
    """Which slots are tokens; a 4-D mask hides none of them."""
    if mask is None or mask.ndim == 4:
        return torch.ones(batch, length, dtype=torch.bool)
    return mask.to(torch.bool)


def decoder_mask(rule: Rule = lambda c: c.rule, memory: Rule = lambda c: c.real) -> Seed:
    """Merged attention with other rules for the decoder's own half and for the encoder's."""

    def mask(
        decoder_attention_mask: torch.Tensor | None,
        encoder_attention_mask: torch.Tensor | None,
        *,
        batch: int,
        query: int,
        past: int,
        slots: tuple[int, int],
        encoder_length: int,
        window: int | None,
        dtype: torch.dtype,
        device: torch.device,
    ) -> torch.Tensor:
        count, first = slots
        queries, keys = torch.arange(past, past + query)[:, None], torch.arange(first, first + count)[None]
        real = _real(decoder_attention_mask, batch, past + query)
        theirs = _real(encoder_attention_mask, batch, encoder_length)
        mine = rule(Cells(queries, keys, past, real[:, None, first : first + count], window))
        cross = memory(Cells(queries, torch.arange(encoder_length)[None], past, theirs[:, None], window))
        shown = [half.expand(batch, query, length) for half, length in ((mine, count), (cross, encoder_length))]
        return masks.additive_mask(torch.cat(shown, dim=-1)[:, None], dtype)

    return lambda patch: patch.setattr(modeling_qwen3_decoder, "merged_mask", mask)


def constants(values: Callable[[torch.Tensor, torch.dtype], torch.Tensor]) -> Seed:
    """Booleans become additive in another way, in both stacks."""
    return lambda patch: patch.setattr(masks, "additive_mask", values)


def both(*seeds: Seed) -> Seed:
    """Several seeds as one."""

    def seed(patch: Patch) -> None:
        for part in seeds:
            part(patch)

    return seed


def config_field(name: str, value: Any) -> Seed:
    """The loaded model's config with another value (or a function of the one it has)."""

    def seed(patch: Patch) -> None:
        config = patch.model.config
        patch.setattr(config, name, value(getattr(config, name)) if callable(value) else value)

    return seed
