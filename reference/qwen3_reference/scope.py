"""Which elements of a tap mean something: padding, and keys that are hidden, are not judged and get no noise floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, Place, pb
from qwen3_spec import masks


@dataclass(frozen=True)
class Scope:
    """A case's padding and windows. `start`, `end` of a step are the decoder slots before and after it."""

    config: pb.ModelConfig
    inputs: Mapping[str, Array]
    steps: Sequence[int]

    def _mask(self, stack: str) -> Array | None:
        mask = self.inputs.get(f"input.{stack}_attention_mask")
        return None if mask is None else mask.astype(bool)

    def _visible(self, place: Place, end: int, query: int) -> Array:
        """`[batch, query, key]` of the layer's attention."""
        assert place.layer is not None
        sliding = self.config.layer_types[place.layer] == "sliding_attention"
        window = self.config.sliding_window if sliding else None
        encoder, decoder = self._mask("encoder"), self._mask("decoder")
        if place.name.startswith("encoder."):
            assert encoder is not None
            return masks.encoder_mask(encoder, window)
        assert decoder is not None
        return masks.merged(decoder[:, :end], encoder, query, window)

    def judged(self, place: Place, step: int) -> Array:
        """A bool array that broadcasts to the tap's shape, True = judged."""
        end = sum(self.steps[: step + 1])
        of_encoder = place.name.startswith("encoder.") or "encoder_" in place.pattern.rpartition(".")[2]
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
