"""Wrong rotations of queries and keys, on right tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from detection.mutants.mutant import Mutant, Seed, attention, words
from detection.mutants.patch import Patch
from qwen3_encdec import merged_attention, modeling_qwen3_encoder, rope
from qwen3_encdec.rope import rotate_half

Rotation = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""`rotation(x, cos, sin)`; the tables have a head axis already."""

ROPE = attention("q_rope k_rope encoder_k_rope")
QUERIES = attention("q_rope")
BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")


def rotated_by(rotation: Rotation) -> Seed:
    """Queries and keys of both stacks rotated by `rotation`."""

    def seed(patch: Patch) -> None:
        patch.function(rope.apply_rotary, lambda plain, x, cos, sin: rotation(x, cos[:, None], sin[:, None]))

    return seed


def rotated_apart(change: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> Seed:
    """`change(q, k, cos, sin)` in the place of `apply_rotary_pos_emb` of both stacks, not for the encoder's keys."""
    return lambda patch: patch.function(rope.apply_rotary_pos_emb, lambda plain, *args: change(*args))


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * cos + rotate_half(x) * sin


def neighbours(x: torch.Tensor) -> torch.Tensor:
    """`rotate_half` of pairs (2i, 2i + 1)."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def doubled(table: torch.Tensor) -> torch.Tensor:
    """[a, b, a, b] as [a, a, b, b]."""
    return table[..., : table.shape[-1] // 2].repeat_interleave(2, -1)


def interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * doubled(cos) + neighbours(x) * doubled(sin)


def shuffled_out(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return torch.stack(turn(x, cos, sin).chunk(2, -1), -1).flatten(-2)


def partial(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    n, half = x.shape[-1] - 4, (x.shape[-1] - 4) // 2
    narrow = [torch.cat((table[..., :half],) * 2, -1) for table in (cos, sin)]
    return torch.cat((turn(x[..., :n], *narrow), x[..., n:]), -1)


def one_pair_left(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    done = turn(x, cos, sin)
    last = x.shape[-1] // 2 - 1
    done[..., [last, -1]] = x[..., [last, -1]]
    return done


def narrowed(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return turn(x.bfloat16(), cos.bfloat16(), sin.bfloat16()).to(x.dtype)


def previous_angle(q: torch.Tensor, k: torch.Tensor, cos: Any, sin: Any) -> tuple[torch.Tensor, torch.Tensor]:
    late = [table.roll(1, 1) for table in (cos, sin)]
    return rope.apply_rotary(q, *late), rope.apply_rotary(k, cos, sin)


def one_row(q: torch.Tensor, k: torch.Tensor, cos: Any, sin: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return rope.apply_rotary(q, cos[:1], sin[:1]), rope.apply_rotary(k, cos[:1], sin[:1])


def values_too(patch: Patch) -> None:
    tables: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(plain: Any, q: Any, k: Any, *found: Any) -> Any:
        tables[:] = [found]
        return plain(q, k, *found)

    def update(plain: Any, cache: Any, keys: Any, values: Any, *rest: Any) -> Any:
        own = tables and values.shape[2] == tables[0][0].shape[1]
        return plain(cache, keys, rope.apply_rotary(values, *tables.pop()) if own else values, *rest)

    patch.wrap(merged_attention, "apply_rotary_pos_emb", keep)
    patch.wrap(DynamicCache, "update", update)


def heads_as_positions(patch: Patch) -> None:
    def apply(q: torch.Tensor, k: torch.Tensor, cos: Any, sin: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return turn(q, cos[:, :, None], sin[:, :, None]), rope.apply_rotary(k, cos, sin)

    patch.setattr(modeling_qwen3_encoder, "apply_rotary_pos_emb", apply)


def rotated_again(patch: Patch) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(plain: Any, table: Any, x: Any, ids: Any) -> Any:
        found = plain(table, x, ids)
        if table is patch.model.decoder.rotary_emb:
            cos, sin = seen.pop() if seen else (found[0][:, :0], found[1][:, :0])
            seen.append((torch.cat((cos, found[0]), 1), torch.cat((sin, found[1]), 1)))
        return found

    def update(plain: Any, cache: Any, keys: Any, values: Any, index: int, *rest: Any) -> Any:
        past = cache.get_seq_length(index)
        if past:
            held = cache.layers[index]
            held.keys = rope.apply_rotary(held.keys, *(table[:, :past] for table in seen[0]))
        return plain(cache, keys, values, index, *rest)

    patch.wrap(rope.Qwen3RotaryEmbedding, "forward", keep)
    patch.wrap(DynamicCache, "update", update)


def one_layer_interleaved(patch: Patch) -> None:
    inside: list[Any] = []

    def forward(plain: Any, *args: Any, **kwargs: Any) -> Any:
        inside.append(plain)
        try:
            return plain(*args, **kwargs)
        finally:
            inside.clear()

    def apply(plain: Any, x: Any, cos: Any, sin: Any) -> Any:
        return interleaved(x, cos[:, None], sin[:, None]) if inside else plain(x, cos, sin)

    patch.wrap(patch.attentions("decoder")[1], "forward", forward)
    patch.function(rope.apply_rotary, apply)


MUTANTS = (
    Mutant("ROP-01", "pairs (2i, 2i + 1)", rotated_by(interleaved), ROPE, words("rope.interleaved"), BOTH),
    Mutant("ROP-01/layer", "pairs (2i, 2i + 1) in one layer", one_layer_interleaved,
           words("merged_attn.q_rope merged_attn.k_rope merged_attn.encoder_k_rope"), words("rope.interleaved"),
           BOTH[:3]),
    Mutant("ROP-05", "frequencies by neighbours, rotation by halves",
           rotated_by(lambda x, cos, sin: turn(x, doubled(cos), doubled(sin))), ROPE, words("rope.mixed_layout"), BOTH),
    Mutant("ROP-05/rotation", "frequencies by halves, rotation by neighbours",
           rotated_by(lambda x, cos, sin: x * cos + neighbours(x) * sin), ROPE, words("rope.mixed_layout"), BOTH),
    Mutant("ROP-06", "halves put back interleaved", rotated_by(shuffled_out), ROPE, words("rope.output_layout"), BOTH),
    Mutant("ROP-24", "values rotated too", values_too, words("merged_attn.cache_values"),
           words("context.value_rotated cache.values_rotated"), BOTH[:3]),
    Mutant("ROP-24/keys", "keys alone rotated",
           rotated_apart(lambda q, k, cos, sin: (q, rope.apply_rotary(k, cos, sin))), QUERIES,
           words("rope.not_applied"), BOTH),
    Mutant("ROP-24/queries", "queries alone rotated",
           rotated_apart(lambda q, k, cos, sin: (rope.apply_rotary(q, cos, sin), k)), attention("k_rope"),
           words("rope.not_applied"), BOTH),
    Mutant("ROP-25", "cached keys rotated again at every step", rotated_again, words("merged_attn.cache_keys"),
           words("cache.rerotated"), BOTH[:3]),
    Mutant("ROP-26", "heads taken for positions", heads_as_positions, words("self_attn.q_rope"),
           words("rope.heads_as_positions"), ("encdec/unrotated",)),
    Mutant("ROP-32", "the last four channels not rotated", rotated_by(partial), ROPE, words("rope.partial"), BOTH),
    Mutant("own/rope-none", "no rotation", rotated_by(lambda x, cos, sin: x), ROPE, words("rope.not_applied"), BOTH),
    Mutant("own/rope-backwards", "angle of the other sign", rotated_by(lambda x, cos, sin: turn(x, cos, -sin)), ROPE,
           words("rope.negative_angle rope.sign"), BOTH),
    Mutant("own/rope-twice", "rotated twice", rotated_by(lambda x, cos, sin: turn(turn(x, cos, sin), cos, sin)), ROPE,
           words("rope.twice"), BOTH),
    Mutant("own/rope-sign", "no minus in the half turn",
           rotated_by(lambda x, cos, sin: x * cos + torch.cat(x.chunk(2, -1)[::-1], -1) * sin), ROPE,
           words("rope.sign"), BOTH),
    Mutant("own/rope-swapped", "cos and sin exchanged where they are used",
           rotated_by(lambda x, cos, sin: turn(x, sin, cos)), ROPE, words("rope.swapped_cos_sin"), BOTH),
    Mutant("own/rope-one-pair", "the last pair not rotated", rotated_by(one_pair_left), ROPE,
           words("rope.partial fit.concentrated"), BOTH),
    Mutant("own/rope-bfloat16", "rotated in bfloat16", rotated_by(narrowed), ROPE,
           words("rope.half_precision fit.grid"), BOTH),
    Mutant("own/rope-late-query", "queries take the token before's angle", rotated_apart(previous_angle), QUERIES,
           words("rope.other_position"), BOTH[:1] + BOTH[3:]),
    Mutant("own/rope-one-row", "the first row's angles for all", rotated_apart(one_row), attention("q_rope k_rope"),
           words("rope.other_position rope.other_row"), BOTH[:1] + BOTH[2:]),
)  # fmt: skip
