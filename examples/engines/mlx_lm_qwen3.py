"""Apple's mlx-lm as a candidate: its own Qwen3, unmodified, recorded tap by tap. For causal cases without windows.

Attention is one kernel, which shows no scores and no probabilities, and so is RoPE, whose cos and sin nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model
from shared import ATTENTION, ROTATED, Array, Inputs, Taken, Watched, layer_name, runner

from qwen3_golden import pb

PACKAGE, HAS = "mlx-lm", {"qk_norm", "yarn", "inputs_embeds", "mask_4d", "padding", "positions"}
SHOWN = [*ROTATED, "decoder.position_ids", *(ATTENTION + name for name in ("mask", "cache_keys", "cache_values"))]
LAYER = {
    "input_layernorm": ("input", "input_layernorm"),
    **{f"self_attn.{name}": ("", f"merged_attn.{name}") for name in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm")},
    "self_attn.rope": ("", "merged_attn.q_rope", "merged_attn.k_rope"),
    "self_attn.o_proj": ("merged_attn.context", "merged_attn.o_proj"),
    "post_attention_layernorm": ("attn_residual", "post_attention_layernorm"),
    **{f"mlp.{name}": ("", f"mlp.{name}") for name in ("gate_proj", "up_proj")},
    "mlp.down_proj": ("mlp.act", "mlp.down_proj"),
}
"""A layer's modules, the tap that goes in and those that come out, call by call."""


def by_columns(rope: Any, x: mx.array, offset: mx.array) -> mx.array:
    """The kernel on each column by itself: it takes consecutive positions, and rows with padding inside have others."""
    columns = range(x.shape[2])
    return mx.concatenate([rope(x[:, :, one : one + 1], offset=offset[:, one]) for one in columns], axis=2)


def visible(inputs: Mapping[str, Array], now: slice) -> Array:
    """Which slots up to a step's end its queries see, `[batch, query, total]`: real ones behind them, or as given."""
    if "input.decoder_mask" in inputs:
        return inputs["input.decoder_mask"][:, now, : now.stop].astype(bool)
    real = inputs["input.decoder_attention_mask"][:, None, : now.stop].astype(bool)
    return np.tril(np.ones((now.stop - now.start, now.stop), bool), now.start) & real


class Cache:
    """One layer's keys and values; `offset` `[batch, query]` has the positions of the step."""

    def __init__(self, index: int, taken: Taken) -> None:
        self.taken, self.names = taken, partial(layer_name, index)
        self.held: tuple[mx.array, ...] = ()

    def enter(self, positions: Array, visible: Array) -> None:
        """Begin a step at `positions` `[batch, query]`, whose queries see what is `visible` `[batch, query, total]`."""
        self.offset, self.visible = mx.array(positions), mx.array(visible)
        self.taken.append((self.names("merged_attn.mask"), self.visible))

    def make_mask(self, *_: Any, **__: Any) -> mx.array:
        return self.visible[:, None]

    def update_and_fetch(self, *new: mx.array) -> tuple[mx.array, ...]:
        joined = (mx.concatenate(pair, axis=2) for pair in zip(self.held, new, strict=True))
        self.held = tuple(joined) if self.held else new
        for name, held in zip(("keys", "values"), self.held, strict=True):
            self.taken.append((self.names(f"merged_attn.cache_{name}"), held))
        return self.held


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner of causal cases on the decoder's checkpoint; `ValueError` for what mlx-lm's Qwen3 does not have."""
    if case.mode != pb.CAUSAL or "sliding_attention" in case.config.layer_types:
        raise ValueError("mlx-lm's Qwen3 is a causal decoder without sliding windows")
    (model, _), taken, caches = load_model(checkpoints["decoder"]), Taken(), list[Cache]()
    for index, layer in enumerate(model.model.layers):
        layer.self_attn.rope = partial(by_columns, layer.self_attn.rope)
        for path, (before, *after) in LAYER.items():
            *inside, name = path.split(".")
            owner = getattr(layer, inside[0]) if inside else layer
            names = [layer_name(index, one) for one in after]
            setattr(owner, name, Watched(getattr(owner, name), taken, before and layer_name(index, before), *names))
        model.model.layers[index] = Watched(layer, taken, "", layer_name(index, "output"))
    model.model.embed_tokens = Watched(model.model.embed_tokens, taken, "", "decoder.embed_tokens")
    model.model.norm = Watched(model.model.norm, taken, "", "decoder.norm")

    def forward(inputs: Inputs, now: slice) -> mx.array:
        if now.start == 0:
            caches[:] = [Cache(index, taken) for index in range(case.config.num_hidden_layers)]
        positions = inputs["input.decoder_position_ids"][:, now]
        for cache in caches:
            cache.enter(positions, visible(inputs, now))
        taken.append(("decoder.position_ids", positions))
        given = (inputs.get(f"input.decoder_{name}") for name in ("input_ids", "inputs_embeds"))
        ids, embeds = (None if one is None else mx.array(one[:, now]) for one in given)
        return model(ids, caches, embeds)

    return runner("mlx-lm", taken, forward, SHOWN, heads_first=("_rope",))
