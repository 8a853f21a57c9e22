"""Rotations that differ by layer, by half, or between queries and keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from detection.mutants.cache_seeds import Pair
from detection.mutants.mutant import Seed, attention
from detection.mutants.patch import Patch
from detection.unseen.row import row
from qwen3_encdec import merged_attention, rope
from qwen3_encdec.caches import past_length
from qwen3_encdec.merged_attention import Qwen3MergedAttention

_ROTATED = attention("q_rope k_rope encoder_k_rope")


@dataclass
class _Call:
    """The attention that runs, and how many slots older calls filled."""

    module: Any = None
    past: int = 0


Change = Callable[[_Call, Pair, Pair], Pair]
"""`change(call, (q, k) as projected, (q, k) rotated)`, each `[batch, heads, query, head_dim]`."""


def rotated(change: Change) -> Seed:
    """The decoder's queries and keys, `change`d behind their rotation."""

    def seed(patch: Patch) -> None:
        call = _Call()

        def forward(plain: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
            cache = args[6]  # as a layer hands it over
            call.module, call.past = module, int(past_length(cache, module.layer_idx))
            return plain(module, *args, **kwargs)

        def rotate(plain: Any, q: torch.Tensor, k: torch.Tensor, *tables: torch.Tensor) -> Pair:
            return change(call, (q, k), plain(q, k, *tables))

        patch.wrap(Qwen3MergedAttention, "forward", forward)
        patch.wrap(merged_attention, "apply_rotary_pos_emb", rotate)

    return seed


def _factor_on_queries(patch: Patch) -> None:
    factor = patch.model.decoder.rotary_emb.attention_factor
    rotated(lambda _call, _before, turned: (turned[0], turned[1] / factor))(patch)


def _keys_by_slot(patch: Patch) -> None:
    frequencies = patch.model.decoder.rotary_emb.inv_freq

    def change(call: _Call, before: Pair, turned: Pair) -> Pair:
        _, k = before
        slots = torch.arange(call.past, call.past + k.shape[2]).expand(len(k), -1)
        return turned[0], rope.apply_rotary(k, *rope.rotary_tables(frequencies, slots, k.dtype))

    rotated(change)(patch)


def _half_stale(patch: Patch) -> None:
    left: list[torch.Tensor] = []

    def change(call: _Call, _before: Pair, turned: Pair) -> Pair:
        q, k = turned
        if q.shape[2] == 1 and call.module.layer_idx:
            half = q.shape[-1] // 2
            q = torch.cat((q[..., :half], left[0][..., half:]), -1)
        left[:] = [q]
        return q, k

    rotated(change)(patch)


def _by_logarithm(call: _Call, _before: Pair, turned: Pair) -> Pair:
    positions = torch.arange(call.past, call.past + turned[0].shape[2], dtype=torch.float32)
    return turned[0] * (1 + 0.1 * torch.log(1 + positions))[:, None], turned[1]


def _keys_scaled_in_steps(call: _Call, _before: Pair, turned: Pair) -> Pair:
    q, k = turned
    return q, k * k.shape[-1] ** -0.5 if call.past else k


def _in_place(_plain: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    (cos, _), (sin, _) = cos[:, None].chunk(2, -1), sin[:, None].chunk(2, -1)
    first = first * cos - second * sin
    return torch.cat((first, second * cos + first * sin), -1)


def _last_pair_left(plain: Any, x: torch.Tensor, *tables: torch.Tensor) -> torch.Tensor:
    turned: torch.Tensor = plain(x, *tables)
    pair = [x.shape[-1] // 2 - 1, x.shape[-1] - 1]
    turned[..., pair] = x[..., pair]
    return turned


def _exponents_zero(patch: Patch) -> None:
    for stack in (patch.model.encoder, patch.model.decoder):
        table = stack.rotary_emb
        exponents = torch.arange(0, table.dim, 2) // table.dim
        patch.setattr(table, "inv_freq", 1.0 / torch.tensor(table.base, dtype=torch.float32) ** exponents)


def _llama3(model: Any, turn: float, ramp: bool) -> None:
    """Frequencies of Llama 3 whose wavelength is `turn` / frequency; without `ramp` those between the bands stay."""
    stated = model.config.rope_parameters
    length, low, high = (
        stated[name] for name in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    width = 2 * len(model.model.rotary_emb.inv_freq)
    plain = 1.0 / stated["rope_theta"] ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
    turns = length * plain / turn
    share = ((turns - low) / (high - low)).clamp(0, 1) if ramp else (turns >= low).float()
    model.model.rotary_emb.inv_freq = share * plain + (1 - share) * plain / stated["factor"]


ROWS = (
    row("B4", "YaRN: attention_factor scales the queries only", _factor_on_queries, "merged_attn.k_rope",
        ["yarn.attention_factor", "rope.scaled: attention.factor"], "decoder/yarn_stated", "modules layer"),
    row("X7", "keys are turned by slot, queries by position", _keys_by_slot, "merged_attn.k_rope",
        ["rope.other_position", "rope.*: slot"], "encdec/ragged", "modules"),
    row("X1", "the decode kernel of QK-norm and RoPE writes the first half of each query head", _half_stale,
        "merged_attn.q_rope", ["from.other_layer", "*: layer before"], "decoder/ragged_decode", "logits"),
    row("X11", "queries are scaled by 1 + 0.1 log(1 + position)", rotated(_by_logarithm), "merged_attn.q_rope",
        [r"*: \blog\b|\blog\(|logarithm"], "decoder/plain", "layer"),
    row("S4", "keys of decode steps are cached already scaled by 1 / sqrt(head_dim), and scaled again",
        rotated(_keys_scaled_in_steps), "merged_attn.k_rope",
        ["rope.scaled", "*: keys?.*(scaled|times|multiplied).*(0\\.316|head_dim)"], "decoder/ragged_decode",
        "layer logits"),
    row("X13", "every third layer has no RoPE",
        rotated(lambda call, before, turned: before if call.module.layer_idx % 3 == 2 else turned),
        "merged_attn.q_rope merged_attn.k_rope", ["rope.not_applied"], "decoder/plain", "layer"),
    row("B10", "SIMD tail: the last of 5 pairs is not rotated",
        lambda patch: patch.function(rope.apply_rotary, _last_pair_left), _ROTATED, ["rope.partial"], "encdec/ragged",
        "layer"),
    row("B9", "RoPE in place: the second half reads the first half already rotated",
        lambda patch: patch.function(rope.apply_rotary, _in_place), _ROTATED,
        ["rope.in_place", "*: in place|already rotated|rotated first half"], "encdec/ragged", "modules"),
    row("I7", "integer division in the exponent of the frequencies: all are 1", _exponents_zero,
        "encoder.inv_freq decoder.inv_freq", ["*: integer|exponents? (is|are|of) 0|whole number"], "encdec/ragged",
        "modules"),
    row("LL1", "llama3 RoPE: a hard threshold, no ramp between the two factors",
        lambda model: _llama3(model, 2 * math.pi, ramp=False), "decoder.inv_freq",
        ["*: ramp|smooth|threshold|interpolat|between the (two )?bands"], "llama/beyond_original", ""),
    row("LL2", "llama3 RoPE: the wavelength without 2 pi", lambda model: _llama3(model, 1.0, ramp=True),
        "decoder.inv_freq", ["*: 2 ?(π|pi)"], "llama/beyond_original", "layer"),
)  # fmt: skip
