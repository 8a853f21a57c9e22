"""Which elements of a tap mean something: padding, and keys that are hidden, are not judged and get no noise floor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qwen3_golden import ENCODERS, Array, Place, pb
from qwen3_spec import ops

BY_ROW = ("next_token_probs",)
"""Ops whose taps have a row of the batch for each text, and no positions."""


def layer_mask(
    config: pb.ModelConfig,
    input_of: Callable[[str], Array | None],
    layer: int,
    end: int,
    query: int,
    *,
    of_encoder: bool,
) -> Array | None:
    """Who sees whom in a layer by padding, window and a mask that is stated, `[batch, query, key]`.

    `input_of(name)` is an input of the case, None where it has none; without a stack's padding nothing is known. The
    queries are the last `query` of the `end` slots of a decoder. Raises `ValueError` for masks that do not fit.
    """
    window = config.sliding_window if config.layer_types[layer : layer + 1] == ["sliding_attention"] else None
    encoder, decoder = input_of("input.encoder_attention_mask"), input_of("input.decoder_attention_mask")
    encoder = None if encoder is None else encoder.astype(bool)
    if of_encoder:
        return None if encoder is None else ops.mask.encoder_mask(encoder, window)
    if decoder is None:
        return None
    stated = input_of("input.decoder_mask")
    real = decoder[:, :end].astype(bool) if stated is None else stated[:, :end, :end]
    return ops.mask.merged(real, encoder, query, window)


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
        of_encoder = place.name.startswith(ENCODERS)
        visible = layer_mask(self.config, self.inputs.get, place.layer, end, query, of_encoder=of_encoder)
        assert visible is not None
        return visible

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
