"""What a mask is made of, and what a rule for one of its parts is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array
from qwen3_spec.site import Site


@dataclass(frozen=True)
class Slots:
    """What a mask is made of: `real[batch, total]` True = a token, `memory[batch, enc]` the same of the encoder.

    The queries are the last `length` slots. `window` is the layer's, `width` the configuration's (None without one).
    """

    real: Array
    memory: Array | None
    length: int
    window: int | None
    width: int | None
    layers: tuple[bool, ...]
    layer: int
    encoder: bool
    ids: Array | None
    memory_ids: Array | None

    @property
    def past(self) -> int:
        """Slots before the first query."""
        return int(self.real.shape[1] - self.length)

    @property
    def query(self) -> Array:
        """Slots of the queries, `[1, query, 1]`."""
        return self.past + np.arange(self.length)[None, :, None]

    @property
    def key(self) -> Array:
        """Slots of the stack's own keys, `[1, 1, key]`."""
        return np.arange(self.real.shape[1])[None, None]

    @property
    def distance(self) -> Array:
        """Query slot minus key slot, `[1, query, key]`."""
        return np.asarray(self.query - self.key)


def slots(site: Site) -> Slots:
    """The parts of a site's mask."""
    encoder = site.stack == "encoder"
    mask = site.inputs[0] if site.inputs[0].ndim == 2 else site.values.recorded("input.decoder_attention_mask", 0)
    assert mask is not None
    real = mask.astype(bool)
    real = real if encoder else real[:, : site.stop]
    memory = site.inputs[1].astype(bool) if not encoder and len(site.inputs) > 1 else None
    ids = site.values.recorded(f"input.{site.stack}_input_ids", 0)
    return Slots(
        real,
        memory,
        site.length,
        site.window,
        site.config.sliding_window,
        tuple(site.config.window(i) is not None for i in range(site.config.num_hidden_layers)),
        site.place.layer or 0,
        encoder,
        None if ids is None else ids[:, : real.shape[1]],
        None if memory is None else site.values.recorded("input.encoder_input_ids", 0),
    )


@dataclass(frozen=True)
class Rule:
    """One part of a mask, `visible(slots)` broadcasting to `[batch, query, key]`, or None where it does not apply.

    The right rule has no name; `steps` are how much rarer than the plainest a wrong one is.
    """

    name: str
    says: str
    visible: Callable[[Slots], Array | None]
    steps: int = 0
