"""Tensor and pipeline parallelism of others: what ranks add twice, leave out, or hold of each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.cache_seeds import Pair, own_cache
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import LINEAR, MLP, NORMS, taken, taps, weights
from qwen3_encdec.decoder_layer import Qwen3DecoderLayer


def prompt_heads(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """Decode steps find the prompt's keys and values `[batch, kv_heads, prompt, head_dim]` as `change` leaves them."""

    def read(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
        lengths = vars(cache).setdefault("prompts", {})
        prompt = lengths.setdefault(layer, pair[0].shape[2])
        for x in pair:
            if past:
                x[:, :, :prompt] = change(x[:, :, :prompt].clone())
        return pair

    return own_cache(read, keep=False)


def other_ranks_zero(x: torch.Tensor) -> torch.Tensor:
    x[:, 1:] = 0
    return x


def bias_twice(patch: Patch) -> None:
    for layer in patch.model.layers:
        projection = layer.self_attn.out_proj
        patch.result(projection, "forward", partial(torch.add, projection.bias))


def output(change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], *layers: int) -> Seed:
    """The output of decoder layers goes through `change(x, output)`, `x` their input."""

    def forward(plain: Any, layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        stream, *rest = plain(layer, x, *args, **kwargs)
        changed = not layers or layer.merged_attn.layer_idx in layers
        return (change(x, stream) if changed else stream, *rest)

    return lambda patch: patch.wrap(Qwen3DecoderLayer, "forward", forward)


def mlp_twice(patch: Patch) -> None:
    for layer in patch.layers("decoder"):
        patch.result(layer.mlp.down_proj, "forward", lambda y: y * 2)


def residual_twice(patch: Patch) -> None:
    """The stream that the MLP is added to counts on both ranks."""
    streams: list[torch.Tensor] = []

    def keep(plain: Any, x: torch.Tensor) -> Any:
        streams.append(x)
        return plain(x)

    for layer in patch.layers("decoder"):
        norm = layer.post_attention_layernorm
        patch.wrap(norm, "forward", keep)
    output(lambda _x, stream: stream + streams.pop())(patch)


def first_rank_alone(patch: Patch) -> None:
    for attention in patch.attentions("decoder"):
        half = attention.attention_width // 2
        patch.wrap(
            attention.o_proj,
            "forward",
            lambda plain, x, half=half: plain(torch.cat((x[..., :half], torch.zeros_like(x[..., half:])), dim=-1)),
        )


def clamped_not_masked(patch: Patch) -> None:
    def lookup(plain: Any, ids: torch.Tensor, table: Any) -> torch.Tensor:
        shard = table.num_embeddings // 2
        edge = torch.where(ids < shard, torch.full_like(ids, shard), torch.full_like(ids, shard - 1))
        result: torch.Tensor = plain(ids) + table.weight[edge]
        return result

    table = patch.model.decoder.embed_tokens
    patch.wrap(table, "forward", lambda plain, ids: lookup(plain, ids, table))


def heads_regrouped(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """`[hidden, heads * head_dim]` with its columns by place in the group first, then by KV head."""
    return torch.unflatten(weight, 1, (2, heads // 2, -1)).transpose(1, 2).flatten(1)


def o_proj_by_group(patch: Patch) -> None:
    heads = patch.model.config.num_attention_heads
    weights(lambda w, _: heads_regrouped(w, heads), "o_proj")(patch)


def q_by_rank(patch: Patch) -> None:
    heads = patch.model.config.num_attention_heads
    weights(lambda w, _: heads_regrouped(w.T, heads).T, "q_proj")(patch)


_MERGED, _CACHED = "decoder/ragged_decode encdec/ragged", "merged_attn.cache_keys merged_attn.cache_values"
_LAYERS = (*NORMS, *LINEAR, "q_norm", "k_norm", *MLP)

ROWS = (
    row("B044", "of the prompt's KV heads only the first rank's reaches the decode side", "vllm-project/vllm#52516",
        "transfer", _MERGED, prompt_heads(other_ranks_zero), _CACHED),
    row("B045", "the prompt's KV heads are written at another rank's offset", "sgl-project/sglang#19086", "transfer",
        _MERGED, prompt_heads(lambda x: x.flip(1)), _CACHED),
    row("B046", "every rank adds the row-parallel bias before the sum", "huggingface/text-generation-inference#1036",
        "tensor parallel", "classic/pre_norm classic/post_norm", bias_twice, "self_attn.out_proj",
        levels="modules layer"),
    row("B047", "the whole MLP runs on both ranks, and their outputs are summed", "lightseekorg/tokenspeed#80",
        "tensor parallel", _MERGED,
        mlp_twice,
        "mlp.down_proj"),
    row("B048", "every rank adds the residual before the sum", "mirage-project/mirage#722", "tensor parallel",
        _MERGED, residual_twice, "output"),
    row("B049", "the fused reduction sums half of the ranks", "sgl-project/sglang#32963", "tensor parallel", _MERGED,
        first_rank_alone, "merged_attn.o_proj"),
    row("B050", "an embedding shard clamps ids that are not its own and adds the row", "lightseekorg/tokenspeed#309",
        "tensor parallel", _MERGED, clamped_not_masked, "decoder.embed_tokens"),
    row("B051", "o_proj's columns are read by group, then by KV head", "nntile/nntile#347", "weights", _MERGED,
        o_proj_by_group, "merged_attn.o_proj"),
    row("B052", "merged shards of q_proj have their heads in the order of ranks", "alibaba/ChatLearn#277", "weights",
        _MERGED, q_by_rank, "merged_attn.q_proj"),
    row("B053", "the second pipeline stage loads the first one's layers", "huggingface/transformers#24381",
        "weights", _MERGED, taken(lambda s, n, layer, depth: (s, n, 0) if layer == depth - 1 else None, *_LAYERS),
        taps(*_LAYERS)),
    row("B054", "pipeline stages leave a layer to nobody", "ml-explore/mlx-lm#1688", "wiring", _MERGED,
        output(lambda x, _stream: x, 1), "output"),
)  # fmt: skip
