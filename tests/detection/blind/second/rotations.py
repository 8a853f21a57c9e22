"""Rotations of others: their frequencies and tables, what counts as a position, and how pairs are turned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import rope
from qwen3_encdec.rope import Qwen3RotaryEmbedding, inverse_frequencies, rotary_tables
from qwen3_encdec.rope_scaling import ramp_ends

Tables = tuple[torch.Tensor, torch.Tensor]


def tables(change: Callable[[Any, torch.Tensor, torch.Tensor], Tables]) -> Seed:
    """`change(module, x, position_ids)` makes cos and sin in both stacks."""

    def forward(_plain: Any, module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
        return change(module, x, ids)

    return lambda patch: patch.wrap(Qwen3RotaryEmbedding, "forward", forward)


def plain(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    return rotary_tables(module.inv_freq, ids, x.dtype, module.attention_factor)


def frequencies_in_bfloat16(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    return rotary_tables(module.inv_freq.bfloat16(), ids, x.dtype, module.attention_factor)


def angles_in_bfloat16(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    angles = ids[..., None].bfloat16() * module.inv_freq.bfloat16()
    doubled = torch.cat((angles, angles), dim=-1)
    return doubled.cos().to(x.dtype), doubled.sin().to(x.dtype)


def tables_in_bfloat16(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    cos, sin = plain(module, x, ids)
    return cos.bfloat16().to(x.dtype), sin.bfloat16().to(x.dtype)


def angles_by_pairs(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    cos, sin = plain(module, x, ids)
    half = cos.shape[-1] // 2
    return cos[..., :half].repeat_interleave(2, -1), sin[..., :half].repeat_interleave(2, -1)


def short_cache(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
    """Behind the last position of the stored tables stands nothing but zeros."""
    inside = (ids < module.max_position_embeddings)[..., None]
    cos, sin = plain(module, x, ids)
    return cos * inside, sin * inside


def by_length(patch: Patch) -> None:
    """Tables are kept under the number of tokens in the call, whatever their positions."""
    by_count: dict[int, Tables] = {}

    def change(module: Any, x: torch.Tensor, ids: torch.Tensor) -> Tables:
        return by_count.setdefault(ids.shape[1], plain(module, x, ids))

    tables(change)(patch)


def frequencies(change: Callable[[Any], torch.Tensor]) -> Seed:
    """Each stack that the case has gets the `inv_freq` of `change(rotary module)`."""

    def seed(patch: Patch) -> None:
        for stack in (patch.model.encoder, patch.model.decoder):
            patch.setattr(stack.rotary_emb, "inv_freq", change(stack.rotary_emb))

    return seed


def factor_within_the_power(module: Any) -> torch.Tensor:
    """The interpolated half of YaRN is `1 / (factor * theta) ** (2i / dim)`."""
    dim, base, scaling = module.dim, module.base, module.scaling
    exponents = torch.arange(0, dim, 2, dtype=torch.float32) / dim
    first, last = ramp_ends(dim, base, scaling)
    ramp = ((torch.arange(dim // 2, dtype=torch.float32) - first) / (last - first)).clamp(0, 1)
    divided = 1.0 / (scaling.factor * base) ** exponents
    result: torch.Tensor = divided * ramp + 1.0 / base**exponents * (1 - ramp)
    return result


def computed_factor(patch: Patch) -> None:
    module = patch.model.decoder.rotary_emb
    patch.setattr(module, "attention_factor", 0.1 * math.log(module.scaling.factor) + 1.0)


def turned(change: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]) -> Seed:
    """`change(x, cos, sin)` rotates `x [batch, heads, seq, dim]` by tables `[batch, seq, dim]`."""
    return lambda patch: patch.function(rope.apply_rotary, lambda _plain, x, cos, sin: change(x, cos, sin))


def neighbours(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def backwards(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * cos[:, None] - rope.rotate_half(x) * sin[:, None]


def heads_as_positions(patch: Patch) -> None:
    def change(x: torch.Tensor, cos: torch.Tensor, _sin: torch.Tensor) -> torch.Tensor:
        ids = torch.arange(x.shape[1])[None]
        by_head = rotary_tables(patch.model.decoder.rotary_emb.inv_freq, ids, cos.dtype)
        c, s = (table[:, :, None] for table in by_head)
        return x * c + rope.rotate_half(x) * s

    turned(change)(patch)


def rows_behind_padding(patch: Patch) -> None:
    patch.wrap(patch.model.embed_positions, "forward", lambda plain, ids: plain(ids + 2))


_STEPS = "decoder/ragged_decode decoder/plain"
_TABLES, _TURNED = "decoder.cos decoder.sin", "merged_attn.q_rope merged_attn.k_rope"
_ALL_TABLES = f"encoder.cos encoder.sin {_TABLES} decoder.encoder_cos decoder.encoder_sin"
_FREQUENCIES = "encoder.inv_freq decoder.inv_freq"

ROWS = (
    row("D011", "float32 frequencies are cast to bfloat16 before they meet the positions",
        "sgl-project/sglang-jax#1472", "rope precision", "long/position_4096 decoder/yarn_mscale",
        tables(frequencies_in_bfloat16), _ALL_TABLES),
    row("D012", "positions and angles are bfloat16, so that neighbouring positions share an angle",
        "huggingface/candle#3520", "rope precision", "encdec/bfloat16 long/position_4096",
        tables(angles_in_bfloat16), _ALL_TABLES),
    row("D013", "cos and sin are stored in bfloat16", "KellerJordan/modded-nanogpt#39", "rope precision",
        "decoder/head_dim_64 decoder/plain", tables(tables_in_bfloat16), _TABLES),
    row("D014", "pairs of neighbouring channels turn instead of channels half a head apart",
        "NeuraLegion/shainet#111", "rotation", _STEPS, turned(neighbours), _TURNED),
    row("D015", "the angles repeat one by one, and the rotation pairs halves", "baidu/ERNIE-Image#6", "rope tables",
        "decoder/head_dim_64_ragged decoder/plain", tables(angles_by_pairs), _TABLES),
    row("D016", "the scaled frequencies are computed, and the plain ones returned",
        "huggingface/transformers#32330", "rope scaling", "models/qwen3-8b-yarn decoder/yarn_stated",
        frequencies(lambda module: inverse_frequencies(module.dim, module.base)), _FREQUENCIES),
    row("D017", "rope_theta is not read from the config: 10000 instead of its number", "lyogavin/airllm#369",
        "rope theta", "models/qwen3-0.6b models/qwen3-4b-2507",
        frequencies(lambda module: inverse_frequencies(module.dim, 10_000.0)), _FREQUENCIES),
    row("D018", "the rotation is transposed: everything turns the other way", "karpathy/nanochat#489", "rotation",
        "decoder/window_even decoder/plain", turned(backwards), _TURNED),
    row("D019", "YaRN's factor on cos and sin is computed although the config states another",
        "ml-explore/mlx-lm#1507", "rope scaling", "decoder/yarn_stated", computed_factor, _TABLES),
    row("D020", "YaRN's factor stands within the power of theta, so that it divides each pair differently",
        "apache/tvm#18576", "rope scaling", "decoder/yarn_stated decoder/yarn_mscale",
        frequencies(factor_within_the_power), "decoder.inv_freq"),
    row("D021", "the stored tables of cos and sin end before the sequence does: 0 behind them",
        "pegainfer-project/pegainfer#220", "rope tables", "encoder/window_even", tables(short_cache),
        "encoder.cos encoder.sin"),
    row("D022", "the rotation takes the axis of heads for that of positions", "mlfoundations/open_lm#4", "rotation",
        "decoder/plain_two_rows decoder/ragged_decode", heads_as_positions, _TURNED),
    row("D023", "tables are cached by the number of tokens without their offset",
        "lucidrains/rotary-embedding-torch#11", "rope tables", "decoder/window_chunks generation/greedy", by_length,
        _TABLES),
    row("D024", "rows of learned positions are counted from behind the padding id", "huggingface/transformers#36537",
        "learned positions", "classic/pre_norm classic/post_norm", rows_behind_padding,
        "pre_norm.embed_positions post_norm.embed_positions", levels="modules layer"),
)  # fmt: skip
