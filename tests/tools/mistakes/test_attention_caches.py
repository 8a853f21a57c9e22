"""Wrong cache contents and wrong wiring, made from recorded numbers, get the names of their mistakes.

It runs `mistakes.layouts` and `mistakes.cache_turns`, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from wrong_numbers import evidence, explanations, golden, named

from qwen3_golden import Array
from qwen3_spec.site import Site

CASE = "encdec/ragged"
ATTENTION = "decoder.layers.1.merged_attn"


def value(name: str, step: int = 0) -> Array:
    return golden(CASE)[name, step].values()


def slots(name: str, step: int = 0) -> Array:
    """A projection or norm as `[batch, kv_heads, key, head_dim]`."""
    values = value(name, step)
    return np.swapaxes(values.reshape(*values.shape[:2], 2, 10), 1, 2)


def joined(*parts: Array) -> Array:
    return np.concatenate(parts, axis=2)


def old(kind: str, step: int) -> Array:
    return value(f"{ATTENTION}.cache_{kind}", step - 1)


def new(kind: str, step: int) -> Array:
    return value(f"{ATTENTION}.k_rope", step) if kind == "keys" else slots(f"{ATTENTION}.v_proj", step)


def normed(x: Array, weight: Array) -> Array:
    return (weight * (x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6)))).astype(np.float32)


def turned(x: Array) -> Array:
    """`[batch, kv_heads, key, head_dim]` rotated at the positions of step 2."""
    cos, sin = (value(f"decoder.{name}", 2)[:, None] for name in ("cos", "sin"))
    half = x.shape[-1] // 2
    return (x * cos + np.concatenate((-x[..., half:], x[..., :half]), -1) * sin).astype(np.float32)


def by_positions(x: Array, positions: int, width: int) -> Array:
    """The first channels turned by so many positions more, in pairs of halves of that width."""
    theta = golden(CASE).case.config.rope_theta
    angle = positions * theta ** (-np.arange(0, width, 2) / width)
    cos, sin = (np.tile(table(angle), 2).astype(np.float32) for table in (np.cos, np.sin))
    part, half = x[..., :width], width // 2
    moved = part * cos + np.concatenate((-part[..., half:], part[..., :half]), -1) * sin
    return np.concatenate((moved, x[..., width:]), -1).astype(np.float32)


CACHES: dict[str, tuple[str, str, Callable[[Site], Array]]] = {
    "shifted by another way": ("cache.rerotated", "keys",
                               lambda site: joined(by_positions(old("keys", 2), -3, 10), new("keys", 2))),
    "not written": ("cache.not_written", "keys", lambda site: joined(old("keys", 2), 0 * new("keys", 2))),
    "lost": ("cache.not_written", "keys", lambda site: joined(0 * old("keys", 2), new("keys", 2))),
    "prepended": ("cache.slot_order", "keys", lambda site: joined(new("keys", 2), old("keys", 2))),
    "one early": ("cache.shifted", "keys",
                  lambda site: joined(old("keys", 2)[:, :, 1:], new("keys", 2), 0 * new("keys", 2))),
    "rows": ("cache.other_row", "keys", lambda site: joined(old("keys", 2), new("keys", 2)[[2, 0, 1]])),
    "values": ("cache.keys_values_exchanged", "keys", lambda site: joined(old("keys", 2), new("values", 2))),
    "keys": ("cache.keys_values_exchanged", "values", lambda site: joined(old("values", 2), new("keys", 2))),
    "unrotated": ("cache.unrotated", "keys", lambda site: joined(old("keys", 2), slots(f"{ATTENTION}.k_norm", 2))),
    "unnormed": ("cache.unnormed", "keys", lambda site: joined(old("keys", 2), slots(f"{ATTENTION}.k_proj", 2))),
    "layer 2": ("cache.other_layer", "keys", lambda site: value("decoder.layers.2.merged_attn.cache_keys", 2)),
    "normed again": ("cache.renormed", "keys",
                     lambda site: joined(normed(old("keys", 2), site.checkpoint[f"{ATTENTION}.k_norm.weight"]),
                                         new("keys", 2))),
    "values normed": ("cache.values_normed", "values",
                      lambda site: joined(old("values", 2),
                                          normed(new("values", 2), site.checkpoint[f"{ATTENTION}.q_norm.weight"]))),
    "values rotated": ("cache.values_rotated", "values",
                       lambda site: joined(old("values", 2), turned(new("values", 2)))),
    "in bfloat16": ("cache.half_precision", "values", lambda site: rounded(joined(old("values", 2), new("values", 2)))),
    "as it is": ("right", "keys", lambda site: joined(old("keys", 2), new("keys", 2))),
}  # fmt: skip


def rounded(x: Array) -> Array:
    import torch

    return torch.tensor(x).bfloat16().float().numpy()


test_a_wrong_cache_is_named = named(
    {key: (name, CASE, f"{ATTENTION}.cache_{kind}", wrong, 2) for key, (name, kind, wrong) in CACHES.items()}
)
ONCE: dict[str, tuple[str, str, int, Callable[[Site], Array]]] = {
    "rows": ("cache.other_row", "keys", 0, lambda site: np.roll(value(f"{ATTENTION}.encoder_k_rope"), 1, 0)),
    "values": ("cache.keys_values_exchanged", "keys", 0, lambda site: slots(f"{ATTENTION}.encoder_v_proj")),
    "unrotated": ("cache.unrotated", "keys", 0, lambda site: slots(f"{ATTENTION}.encoder_k_norm")),
    "lost in a decode step": ("cache.not_written", "values", 1, lambda site: 0 * site.before),
    "layer 0": ("cache.other_layer", "values", 0, lambda site: slots("decoder.layers.0.merged_attn.encoder_v_proj")),
}
test_a_wrong_encoder_cache_is_named = named(
    {key: (name, CASE, f"{ATTENTION}.cache_encoder_{kind}", w, step) for key, (name, kind, step, w) in ONCE.items()}
)


LAYER = "decoder.layers.1"


def linear(x: Array, weight: Array) -> Array:
    return (x @ weight.T).astype(np.float32)


WIRING: dict[str, tuple[str, str, str, Callable[[Site], Array]]] = {
    "the norm is skipped": ("wiring.other_input", f"{LAYER}.input where", f"{LAYER}.mlp.up_proj",
                            lambda site: linear(value(f"{LAYER}.input"), site.parameters["weight"])),
    "the layer before": ("wiring.other_layer", "decoder.layers.0.post_attention_layernorm", f"{LAYER}.mlp.up_proj",
                         lambda site: linear(value("decoder.layers.0.post_attention_layernorm"),
                                             site.parameters["weight"])),
    "the row before": ("wiring.other_row", "batch row before", f"{LAYER}.mlp.up_proj",
                       lambda site: linear(np.roll(site.inputs[0], 1, 0), site.parameters["weight"])),
    "the op is left out": ("wiring.skipped", "is left out", f"{LAYER}.input_layernorm", lambda site: site.inputs[0]),
    "the embedding": ("wiring.other_input", "decoder.embed_tokens", f"{LAYER}.input",
                      lambda site: value("decoder.embed_tokens")),
    "a norm too many": ("wiring.extra_norm", "input_layernorm", f"{ATTENTION}.encoder_v_proj",
                        lambda site: linear(normed(site.inputs[0], site.checkpoint[f"{LAYER}.input_layernorm.weight"]),
                                            site.parameters["weight"])),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WIRING)
def test_wrong_wiring_is_named_with_its_tap(mistake: str) -> None:
    name, text, tap, wrong = WIRING[mistake]
    hypotheses = [hypothesis for hypothesis in explanations(evidence(CASE, tap, wrong)) if hypothesis.name == name]
    assert any(text in hypothesis.says for hypothesis in hypotheses)
