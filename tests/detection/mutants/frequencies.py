"""Wrong RoPE tables and frequencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from detection.mutants.mutant import Mutant, Seed, attention, words
from detection.mutants.patch import Patch
from detection.mutants.rope import doubled
from qwen3_encdec import rope

Pair = tuple[torch.Tensor, torch.Tensor]

TABLES = words("encoder.cos encoder.sin decoder.cos decoder.sin decoder.encoder_cos decoder.encoder_sin")
INV_FREQ = words("encoder.inv_freq decoder.inv_freq")
BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
LOW = ("encdec/bfloat16",)
FAR = ("encoder/window_even", "decoder/window_chunks", "encdec/window")


def tables_by(change: Callable[[torch.Tensor, torch.Tensor], Pair]) -> Seed:
    """`change(cos, sin)` of every table."""
    return lambda patch: patch.function(rope.rotary_tables, lambda plain, *args: change(*plain(*args)))


def tables_from(change: Callable[[torch.Tensor, torch.Tensor], Pair]) -> Seed:
    """Every table made from `change(inv_freq, position_ids)`."""

    def seed(patch: Patch) -> None:
        patch.function(rope.rotary_tables, lambda plain, freq, ids, *rest: plain(*change(freq, ids), *rest))

    return seed


def frequencies(make: Callable[[int, float], torch.Tensor]) -> Seed:
    """The buffers of both stacks from `make(head_dim, theta)`."""

    def seed(patch: Patch) -> None:
        for stack in (patch.model.encoder, patch.model.decoder):
            patch.setattr(stack.rotary_emb, "inv_freq", make(stack.rotary_emb.dim, stack.rotary_emb.base))

    return seed


def own_tables(
    patch: Patch,
    attentions: Sequence[Any],
    change: Callable[[torch.Tensor, torch.Tensor], Pair],
) -> None:
    """These attentions make their tables themselves, from `change(inv_freq, position_ids)`."""
    made: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def keep(plain: Any, table: Any, x: Any, ids: Any) -> Any:
        found = plain(table, x, ids)
        made.append((found[0], table.inv_freq, ids))
        return found

    def forward(plain: Any, *args: Any, position_embeddings: Any, **kwargs: Any) -> Any:
        cos = position_embeddings[0]
        source = next((freq, ids) for table, freq, ids in made if table is cos)
        return plain(*args, position_embeddings=rope.rotary_tables(*change(*source), cos.dtype), **kwargs)

    patch.wrap(rope.Qwen3RotaryEmbedding, "forward", keep)
    for attn in attentions:
        patch.wrap(attn, "forward", forward)


def reduced(patch: Patch) -> None:
    """Whole turns of a 2 pi in float32 are taken off the angles."""

    def tables(plain: Any, freq: torch.Tensor, ids: torch.Tensor, dtype: torch.dtype, factor: float = 1.0) -> Pair:
        angles = torch.fmod(ids[..., None].float() * freq, torch.tensor(2 * torch.pi))
        doubled = torch.cat((angles, angles), dim=-1)
        return (doubled.cos() * factor).to(dtype), (doubled.sin() * factor).to(dtype)

    patch.function(rope.rotary_tables, tables)


def two_bases(patch: Patch) -> None:
    local = [attn for attn in patch.attentions() if attn.layer_type == "sliding_attention"]
    own_tables(patch, local, lambda freq, ids: (rope.inverse_frequencies(2 * len(freq), 1e4), ids))


def powers(theta: float, exponents: torch.Tensor) -> torch.Tensor:
    return 1.0 / theta**exponents


def pairs(dim: int) -> torch.Tensor:
    return torch.arange(0, dim, 2, dtype=torch.float32)


MUTANTS = (
    Mutant("ROP-05/tables", "tables by neighbours", tables_by(lambda cos, sin: (doubled(cos), doubled(sin))), TABLES,
           words("table.interleaved"), BOTH),
    Mutant("ROP-16", "frequencies rounded to bfloat16",
           frequencies(lambda d, t: powers(t, pairs(d) / d).bfloat16().float()), INV_FREQ,
           words("table.half_precision fit.grid"), LOW + BOTH[:1]),
    Mutant("ROP-16/product", "frequencies rounded to bfloat16 before the product",
           tables_from(lambda freq, ids: (freq.bfloat16().float(), ids)), TABLES, words("table.half_precision"), BOTH),
    Mutant("ROP-17", "positions in bfloat16", tables_from(lambda freq, ids: (freq, ids.bfloat16().float())), TABLES,
           words("table.half_precision"), LOW),
    Mutant("ROP-17/float16", "positions in float16", tables_from(lambda freq, ids: (freq, ids.half().float())), TABLES,
           words("table.half_precision"), ("long/position_4096",)),
    Mutant("ROP-18", "tables stored in bfloat16",
           tables_by(lambda cos, sin: (cos.bfloat16().to(cos.dtype), sin.bfloat16().to(sin.dtype))), TABLES,
           words("table.half_precision fit.grid"), BOTH),
    Mutant("ROP-20", "frequencies of bfloat16 from position 8 on",
           tables_from(lambda freq, ids: (torch.where(ids[..., None] < 8, freq, freq.bfloat16().float()), ids)), TABLES,
           words("table.half_precision"), FAR),
    Mutant("ROP-21", "positions clamped to max_position_embeddings",
           tables_from(lambda freq, ids: (freq, ids.clamp(max=15))), TABLES, words("table.clamped_positions"), FAR[:1]),
    Mutant("ROP-22", "exponent i / d", frequencies(lambda d, t: powers(t, pairs(d) / 2 / d)), INV_FREQ,
           words("table.exponent"), BOTH),
    Mutant("ROP-22/hidden", "exponent over the hidden size", frequencies(lambda d, t: powers(t, pairs(d) / 40)),
           INV_FREQ, words("table.exponent"), BOTH),
    Mutant("ROP-22/heads", "exponent over hidden / heads", frequencies(lambda d, t: powers(t, pairs(d) / (40 / 6))),
           INV_FREQ, words("table.exponent"), BOTH),
    Mutant("ROP-28", "another base in sliding layers", two_bases, attention("q_rope k_rope"), words("rope.other_theta"),
           ("encdec/window", "encoder/window_odd", "decoder/window_chunks")),
    Mutant("ROP-33", "positions multiplied by the factor", tables_from(lambda freq, ids: (freq, ids * 4)), TABLES,
           words("table.linear_scaling"), BOTH),
    Mutant("own/rope-divided", "positions divided by a factor", tables_from(lambda freq, ids: (freq, ids / 4)), TABLES,
           words("table.linear_scaling"), BOTH),
    Mutant("own/table-swapped", "sin returned for cos", tables_by(lambda cos, sin: (sin, cos)), TABLES,
           words("table.swapped_cos_sin"), BOTH),
    Mutant("own/table-scaled", "tables scaled by an attention factor",
           tables_by(lambda cos, sin: (cos * 1.05, sin * 1.05)), TABLES, words("table.scaled fit.factor"), BOTH),
    Mutant("own/table-degrees", "tables of 360 degrees", tables_from(lambda freq, ids: (freq * (torch.pi / 180), ids)),
           TABLES, words("table.linear_scaling"), BOTH[2:3]),
    Mutant("own/table-turns", "angles reduced by a 2 pi in float32", reduced, TABLES, words("table.range_reduction"),
           ("long/position_4096", "long/position_32768", "decoder/yarn_mscale")),
    Mutant("own/theta-near", "theta off by 1e-4", frequencies(lambda d, t: powers(t * 1.0001, pairs(d) / d)), INV_FREQ,
           words("table.theta"), BOTH),
    Mutant("own/theta-default", "theta 10000", frequencies(lambda d, t: powers(1e4, pairs(d) / d)), INV_FREQ,
           words("table.theta"), BOTH),
    Mutant("own/exponent-inclusive", "exponents from 0 to 1 inclusive",
           frequencies(lambda d, t: powers(t, pairs(d) / (d - 2))), INV_FREQ, words("table.exponent"), BOTH),
)  # fmt: skip
