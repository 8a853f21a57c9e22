"""Apple's mlx-lm as a candidate: its own Qwen3, unmodified, recorded tap by tap. For causal cases without windows.

Attention is one kernel, which shows no scores and no probabilities, and so is RoPE, whose cos and sin nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model

from qwen3_golden import pb, table

Array = np.ndarray[Any, np.dtype[Any]]
Show = Callable[[str, mx.array], None]
PACKAGE, HAS = "mlx-lm", {"qk_norm", "yarn", "inputs_embeds", "mask_4d", "padding", "positions"}
NEVER = (".scores", ".probs", ".inv_freq", "cos", "sin")
MODULES = {
    "input_layernorm": ("input", "input_layernorm"),
    **{f"self_attn.{name}": ("", f"merged_attn.{name}") for name in ("q_proj", "k_proj", "v_proj", "q_norm", "k_norm")},
    "self_attn.o_proj": ("merged_attn.context", "merged_attn.o_proj"),
    "post_attention_layernorm": ("attn_residual", "post_attention_layernorm"),
    **{f"mlp.{name}": ("", f"mlp.{name}") for name in ("gate_proj", "up_proj")},
    "mlp.down_proj": ("mlp.act", "mlp.down_proj"),
}
"""A layer's modules, and the taps that are what goes in and what comes out; empty where another module shows it."""


class Watched:
    """A module that shows what goes in and what comes out under the next names of `before` and `after`."""

    def __init__(self, inner: Any, show: Show, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        self.inner, self.show, self.before, self.after = inner, show, cycle(before), cycle(after)

    def __call__(self, x: mx.array, *rest: Any, **options: Any) -> mx.array:
        self.show(next(self.before), x)
        y = self.inner(x, *rest, **options)
        self.show(next(self.after), y)
        return y

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


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

    def __init__(self, show: Show) -> None:
        self.show = show
        self.held: tuple[mx.array, ...] = ()

    def enter(self, positions: Array, visible: Array) -> None:
        """Begin a step at `positions` `[batch, query]`, whose queries see what is `visible` `[batch, query, total]`."""
        self.offset = mx.array(positions)
        self.visible = mx.array(visible)
        self.show("mask", self.visible)

    def make_mask(self, *_: Any, **__: Any) -> mx.array:
        return self.visible[:, None]

    def update_and_fetch(self, *new: mx.array) -> tuple[mx.array, ...]:
        joined = (mx.concatenate(pair, axis=2) for pair in zip(self.held, new, strict=True))
        self.held = tuple(joined) if self.held else new
        self.show("cache_keys", self.held[0])
        self.show("cache_values", self.held[1])
        return self.held


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner of causal cases on the decoder's checkpoint; `ValueError` for what mlx-lm's Qwen3 does not have."""
    config = case.config
    if case.mode != pb.CAUSAL or "sliding_attention" in config.layer_types:
        raise ValueError("mlx-lm's Qwen3 is a causal decoder without sliding windows")
    if case.HasField("training") or case.HasField("generation") or case.max_new_tokens:
        raise ValueError("this adapter feeds the tokens of a case, it chooses none and trains nothing")
    model, _ = load_model(checkpoints["decoder"])
    taken: list[tuple[str, mx.array]] = []

    def show(prefix: str, name: str, value: mx.array) -> None:
        if name.endswith("context"):  # the heads side by side, as o_proj takes them
            value = value.reshape(*value.shape[:2], config.num_attention_heads, config.head_dim)
        if name:
            taken.append((prefix + name, value))

    for index, layer in enumerate(model.model.layers):
        of_layer = partial(show, f"decoder.layers.{index}.")
        for path, (before, after) in MODULES.items():
            *inside, name = path.split(".")
            owner = getattr(layer, inside[0]) if inside else layer
            setattr(owner, name, Watched(getattr(owner, name), of_layer, (before,), (after,)))
        turned = ("merged_attn.q_rope", "merged_attn.k_rope")
        layer.self_attn.rope = Watched(partial(by_columns, layer.self_attn.rope), of_layer, ("",), turned)
        model.model.layers[index] = Watched(layer, of_layer, ("",), ("output",))
    of_stack = partial(show, "decoder.")
    model.model.embed_tokens = Watched(model.model.embed_tokens, of_stack, ("",), ("embed_tokens",))
    model.model.norm = Watched(model.model.norm, of_stack, ("",), ("norm",))

    def run(case: Any, inputs: Mapping[str, Array], tap: Callable[..., None], wanted: Any) -> None:
        positions = inputs["input.decoder_position_ids"]
        ids, embeds = inputs.get("input.decoder_input_ids"), inputs.get("input.decoder_inputs_embeds")
        attention = [f"decoder.layers.{index}.merged_attn." for index in range(config.num_hidden_layers)]
        caches = [Cache(partial(show, name)) for name in attention]
        stop = 0
        for step, length in enumerate(case.steps):
            now = slice(stop, stop := stop + length)
            for cache in caches:
                cache.enter(positions[:, now], visible(inputs, now))
            given = [None if one is None else mx.array(one[:, now]) for one in (ids, embeds)]
            show("", "decoder.position_ids", mx.array(positions[:, now]))
            show("", "logits", model(given[0], caches, given[1]))
            for name, value in taken:
                if wanted(name):
                    tap(name, step, np.array(value))
            taken.clear()

    patterns = [row.pattern for row in table() if not row.pattern.endswith(NEVER)]
    run.run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=patterns)  # type: ignore[attr-defined]
    run.producer = "mlx-lm"  # type: ignore[attr-defined]
    return run
