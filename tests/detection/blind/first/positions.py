"""Positions and rotations of others: what counts them, what is rotated, and by which table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.cache_seeds import Pair, own_cache
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import merged_attention, modeling_qwen3_decoder
from qwen3_encdec.decoder_layer import Qwen3DecoderLayer
from qwen3_encdec.rope import Qwen3RotaryEmbedding, apply_rotary, inverse_frequencies, rotary_tables
from qwen3_encdec.rope_scaling import yarn_frequencies

Count = Callable[[torch.Tensor, int], torch.Tensor]
"""`count(ids, past)`: other position ids `[batch, query]` for a call of the decoder behind `past` slots."""


def counted(count: Count) -> Seed:
    """The decoder's positions go through `count`."""

    def around(plain: Any, *args: Any) -> Any:
        ids = plain(*args)
        return count(ids.clone(), args[4]) if args[5] == "decoder position_ids" else ids

    return lambda patch: patch.wrap(modeling_qwen3_decoder, "positions", around)


def decoding(ids: torch.Tensor, past: int) -> bool:
    return past > 0 and ids.shape[1] == 1


def windows_constant(ids: torch.Tensor, past: int) -> torch.Tensor:
    return ids[:, :1].expand_as(ids) if past and ids.shape[1] > 1 else ids


def padded_width(ids: torch.Tensor, past: int) -> torch.Tensor:
    return torch.full_like(ids, past) if decoding(ids, past) else ids


def first_row_ahead(ids: torch.Tensor, past: int) -> torch.Tensor:
    if decoding(ids, past):
        ids[0] += 2
    return ids


def ids_ignored(patch: Patch) -> None:
    def around(plain: Any, ids: Any, mask: Any, batch: int, length: int, past: int, name: str, device: Any) -> Any:
        ignored = ids if name != "decoder position_ids" else None
        return plain(ignored, mask, batch, length, past, name, device)

    patch.wrap(modeling_qwen3_decoder, "positions", around)


def prompt_keys_unrotated(patch: Patch) -> None:
    raw: list[torch.Tensor] = []

    def rotate(plain: Any, q: torch.Tensor, k: torch.Tensor, *tables: torch.Tensor) -> Any:
        raw[:] = [k]
        return plain(q, k, *tables)

    def read(_cache: Any, pair: Pair, past: int, _layer: int) -> Pair:
        return pair if past else (raw[0].clone(), pair[1])

    patch.wrap(merged_attention, "apply_rotary_pos_emb", rotate)
    own_cache(read, keep=False)(patch)


def queries_at_zero(patch: Patch) -> None:
    def rotate(plain: Any, q: torch.Tensor, k: torch.Tensor, *tables: torch.Tensor) -> Any:
        turned = plain(q, k, *tables)
        return (q.clone(), turned[1]) if q.shape[2] == 1 else turned

    patch.wrap(merged_attention, "apply_rotary_pos_emb", rotate)


def scale_by_mscale(patch: Patch) -> None:
    for attention in patch.attentions("decoder"):
        patch.setattr(attention, "scaling", attention.scaling * patch.model.decoder.rotary_emb.attention_factor**2)


def decode_without_factor(patch: Patch) -> None:
    def forward(plain: Any, tables: Any, x: torch.Tensor, ids: torch.Tensor) -> Any:
        cos, sin = plain(tables, x, ids)
        factor = tables.attention_factor if ids.shape[1] == 1 else 1.0
        return cos / factor, sin / factor

    patch.wrap(Qwen3RotaryEmbedding, "forward", forward)


def keys_shifted(width: Callable[[int], int], at: int, shift: int) -> Seed:
    """Before the call behind `at` slots, cached keys turn by `shift` positions in their first `width(head_dim)`."""

    def seed(patch: Patch) -> None:
        def read(_cache: Any, pair: Pair, past: int, _layer: int) -> Pair:
            keys, values = pair
            if past == at:
                dim = width(keys.shape[-1])
                inv_freq = inverse_frequencies(dim, patch.model.decoder.rotary_emb.base)
                ids = torch.full((len(keys), past), shift)
                turned = apply_rotary(keys[:, :, :past, :dim], *rotary_tables(inv_freq, ids, keys.dtype))
                keys[:, :, :past, :dim] = turned
            return keys, values

        own_cache(read)(patch)

    return seed


def windows_by_other_theta(patch: Patch) -> None:
    def forward(plain: Any, layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if layer.merged_attn.sliding_window is not None:
            ids = latest[0]
            inv_freq = inverse_frequencies(layer.merged_attn.head_dim, 10_000.0)
            kwargs["position_embeddings"] = rotary_tables(inv_freq, ids, x.dtype)
        return plain(layer, x, *args, **kwargs)

    latest: list[torch.Tensor] = []

    def around(plain: Any, *args: Any) -> Any:
        ids = plain(*args)
        latest[:] = [ids] if args[5] == "decoder position_ids" else latest
        return ids

    patch.wrap(modeling_qwen3_decoder, "positions", around)
    patch.wrap(Qwen3DecoderLayer, "forward", forward)


def yarn_inverted(patch: Patch) -> None:
    tables = patch.model.decoder.rotary_emb
    inverted = tables.scaling._replace(factor=1 / tables.scaling.factor)
    patch.setattr(tables, "inv_freq", yarn_frequencies(tables.dim, tables.base, inverted))


_IDS, _STEPS = "decoder.position_ids", "decoder/ragged_decode encdec/ragged"
_YARN = "decoder/yarn_mscale decoder/yarn_stated models/qwen3-8b-yarn"

ROWS = (
    row("B009", "a new token's position is one too far in every decode step", "Physical-Intelligence/openpi#705",
        "positions", _STEPS, counted(lambda ids, past: ids + 1 if decoding(ids, past) else ids), _IDS),
    row("B010", "every generated token has position 0", "Blaizzy/mlx-vlm#1983", "positions", _STEPS,
        counted(lambda ids, past: ids * 0 if decoding(ids, past) else ids), _IDS),
    row("B011", "all tokens of the prompt have the position behind it", "NVIDIA/TensorRT-LLM#2084", "positions",
        _STEPS, counted(lambda ids, past: ids if past else torch.full_like(ids, ids.shape[1])), _IDS),
    row("B012", "tokens of a call with several all have the first one's position", "jundot/omlx#2363", "positions",
        "encdec/unrotated decoder/window_chunks", counted(windows_constant), _IDS),
    row("B013", "decode steps take the width of the padded batch for the position", "Comfy-Org/ComfyUI#15698",
        "positions", _STEPS, counted(padded_width), _IDS),
    row("B014", "given position_ids are ignored: positions count from 0", "NVIDIA/Megatron-LM#453", "positions",
        "long/position_4096 encdec/bfloat16", ids_ignored, _IDS),
    row("B015", "the prompt attends to keys before their rotation; the cache gets the rotated ones",
        "kvcache-ai/sglang#31", "rotation", "decoder/ragged_decode decoder/plain", prompt_keys_unrotated,
        "merged_attn.k_rope", also="merged_attn.cache_keys"),
    row("B016", "YaRN's factor, which the tables have, multiplies the softmax scale again, squared",
        "guoqingbao/xinfer#329", "scale", _YARN, scale_by_mscale, "merged_attn.scores"),
    row("B017", "decode steps rotate by tables without YaRN's attention_factor", "ddalcu/mlx-serve#323", "rotation",
        _YARN, decode_without_factor, "decoder.cos decoder.sin"),
    row("B018", "of two shifts of the cache only the last one's delta turns the keys", "ggml-org/llama.cpp#3825",
        "cache", _STEPS, keys_shifted(lambda dim: dim, 6, -1), "merged_attn.cache_keys"),
    row("B019", "the shift of cached keys turns pairs of another width than RoPE's", "ggml-org/llama.cpp#4889",
        "cache", "decoder/head_dim_64 decoder/head_dim_64_ragged", keys_shifted(lambda dim: dim // 2, 6, 2),
        "merged_attn.cache_keys"),
    row("B020", "layers with a window rotate by tables of another theta", "huggingface/transformers#45945",
        "rotation", "decoder/window_chunks encdec/window", windows_by_other_theta,
        "merged_attn.q_rope merged_attn.k_rope"),
    row("B021", "YaRN's factor is inverted: slow pairs turn faster", "kekzl/imp#584", "frequencies", _YARN,
        yarn_inverted, "decoder.inv_freq"),
    row("B022", "a row that accepted fewer draft tokens goes on at the longest row's position",
        "Blaizzy/mlx-vlm#1155", "positions", _STEPS, counted(first_row_ahead), _IDS),
    row("B023", "a cached step rotates its queries as if they stood at position 0", "RobertCsordas/moeut#6",
        "rotation", _STEPS, queries_at_zero, "merged_attn.q_rope"),
)  # fmt: skip
