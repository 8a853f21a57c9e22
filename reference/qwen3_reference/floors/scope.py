"""Which elements of a tap mean something: padding, and keys that are hidden, are not judged and get no noise floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qwen3_golden import ENCODERS, Array, Place, pb
from qwen3_spec import ops

BY_ROW = ("next_token_probs",)
"""Ops whose taps have a row of the batch for each text, and no positions."""


@dataclass(frozen=True)
class Scope:
    """A case's padding and windows; `case` itself where it chooses tokens or trains.

    `start`, `end` of a step are the decoder slots before and after it.
    """

    config: pb.ModelConfig
    inputs: Mapping[str, Array]
    steps: Sequence[int]
    case: pb.Case | None = None

    def _mask(self, stack: str) -> Array | None:
        mask = self.inputs.get(f"input.{stack}_attention_mask")
        return None if mask is None else mask.astype(bool)

    def _visible(self, place: Place, end: int, query: int) -> Array:
        """`[batch, query, key]` of the layer's attention."""
        assert place.layer is not None
        sliding = self.config.layer_types[place.layer : place.layer + 1] == ["sliding_attention"]
        window = self.config.sliding_window if sliding else None
        encoder, decoder = self._mask("encoder"), self._mask("decoder")
        if place.name.startswith(ENCODERS):
            assert encoder is not None
            return ops.mask.encoder_mask(encoder, window)
        assert decoder is not None
        stated = self.inputs.get("input.decoder_mask")
        decoder_mask = decoder[:, :end] if stated is None else stated[:, :end, :end]
        return ops.mask.merged(decoder_mask, encoder, query, window)

    def _by_row(self, place: Place, end: int) -> Array:
        """For what has neither queries nor keys: the rows that have not ended."""
        mask = self._mask("decoder")
        if mask is None or place.op not in BY_ROW:
            return np.ones([1] * len(place.axes), dtype=bool)
        return np.asarray(mask[:, end - 1].reshape(-1, *[1] * (len(place.axes) - 1)))

    def judged(self, place: Place, step: int) -> Array:
        """A bool array that broadcasts to the tap's shape, True = judged.

        Of the loss and of gradients all is: what padding passes back is 0.
        """
        if place.name == "loss" or place.name.startswith("gradient."):
            return np.ones([1] * len(place.axes), dtype=bool)
        end = sum(self.steps[: step + 1])
        if place.op in BY_ROW:
            return self._by_row(place, end)
        of_encoder = place.name.startswith(ENCODERS) or "encoder_" in place.pattern.rpartition(".")[2]
        mask = self._mask("encoder" if of_encoder else "decoder")
        assert mask is not None
        if "query" not in place.axes:
            rows = mask if of_encoder else mask[:, :end]
            axis = place.axes.index("key")
        else:
            query = mask.shape[1] if of_encoder else self.steps[step]
            rows = mask if of_encoder else mask[:, end - query : end]
            axis = place.axes.index("query")
            if "key" in place.axes:
                return (self._visible(place, end, query) & rows[:, :, None])[:, None]
        shape = [1] * len(place.axes)
        shape[0], shape[axis] = rows.shape
        return np.asarray(rows.reshape(shape))
