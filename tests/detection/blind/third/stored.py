"""Caches of others whose pages, heads, layers or tokens lie elsewhere than they are read from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from detection.blind.row import row
from detection.blind.second.caches import prompts
from detection.mutants.cache_seeds import Pair, own_cache
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder

_PAGE = 4
"""Tokens of a page."""
_VECTOR = 2
"""Tokens of a page that lie side by side in the layout of one of two kernels."""
_SHARE = 3
"""Blocks that a core copies."""


def pages(length: int) -> int:
    return -(-length // _PAGE)


def behind_past(change: Callable[[torch.Tensor, int], torch.Tensor]) -> Seed:
    """In calls of several tokens behind a past, keys and values are `change(x, past)`."""

    def read(_cache: Any, pair: Pair, past: int, _layer: int) -> Pair:
        for x in pair if past and pair[0].shape[2] > past + 1 else ():
            x.copy_(change(x.clone(), past))
        return pair

    return own_cache(read, keep=False)


def without_block_table(x: torch.Tensor, _past: int) -> torch.Tensor:
    """Rows lie in whole pages, one behind the other, and are read as if they lay without gaps."""
    batch, heads, length, dim = x.shape
    size = pages(length) * _PAGE
    pool = x.new_zeros(heads, batch * size, dim)
    for index in range(batch):
        pool[:, index * size : index * size + length] = x[index]
    return torch.stack([pool[:, index * length : (index + 1) * length] for index in range(batch)])


def heads_at_first(x: torch.Tensor, past: int) -> torch.Tensor:
    """What is gathered from the cache is stored without the head's offset: the last head's is left at the first."""
    gathered = torch.zeros_like(x[:, :, :past])
    gathered[:, 0] = x[:, -1, :past]
    return torch.cat((gathered, x[:, :, past:]), dim=2)


def calls_joined(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
    """Each call's keys are appended to one flat buffer as `[batch, head, token]`, which is read as a whole so."""
    keys = pair[0]
    ends = vars(cache).setdefault("ends", {}).setdefault(layer, [0])
    if keys.shape[2] > ends[-1]:
        ends.append(keys.shape[2])
    if past:
        calls = [keys[:, :, start:stop].flatten() for start, stop in pairwise(ends)]
        keys.copy_(torch.cat(calls).view(keys.shape))
    return pair


def narrow_pages(x: torch.Tensor, _prompt: int) -> None:
    """Tokens have their scale behind their channels; pages lie as far apart as if they had none, and overlap."""
    batch, heads, length, dim = x.shape
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
    tokens = torch.cat((x / scale, scale), dim=-1).transpose(1, 2).flatten(2)
    wide, stride = tokens.shape[2], _PAGE * heads * dim
    buffer = x.new_zeros(batch, (pages(length) + 1) * _PAGE * wide)
    starts = [slot // _PAGE * stride + slot % _PAGE * wide for slot in range(length)]
    for slot, start in enumerate(starts):
        buffer[:, start : start + wide] = tokens[:, slot]
    held = torch.stack([buffer[:, start : start + wide] for start in starts], dim=1)
    held = held.view(batch, length, heads, dim + 1).transpose(1, 2)
    x.copy_(held[..., :dim] * held[..., dim:])


def two_layouts(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
    """The prompt's values lie in pages as `[token / 2, channel, 2]`, and decode steps read `[channel, token]`."""
    values = pair[1]
    batch, heads, length, dim = values.shape
    prompt = vars(cache).setdefault("prompts", {}).setdefault(layer, length)
    if past:
        held = values.new_zeros(batch, heads, pages(length), _PAGE * dim)
        channel = torch.arange(dim)
        for slot in range(length):
            page, token = divmod(slot, _PAGE)
            vector = token // _VECTOR * _VECTOR * dim + channel * _VECTOR + token % _VECTOR
            held[:, :, page, vector if slot < prompt else channel * _PAGE + token] = values[:, :, slot]
        linear = torch.unflatten(held, -1, (dim, _PAGE)).transpose(-1, -2).flatten(2, 3)
        values.copy_(linear[:, :, :length])
    return pair


def across_heads(x: torch.Tensor, prompt: int) -> None:
    """A core copies three blocks of one token and steps on by one, over the end of a head, too."""
    for head in range(1, x.shape[1]):
        first = head * prompt
        start = first // _SHARE * _SHARE
        if start < first:
            x[:, head, : start + _SHARE - first] = 0


def by_longest_left(patch: Patch) -> None:
    """The longest row is gone: what is appended to the others lands as many slots early as they are padded.

    So much earlier ends what attention reads.
    """
    masks: list[Any] = []

    def positions(plain: Any, *args: Any) -> Any:
        masks[:] = [args[1]] if args[5] == "decoder position_ids" else masks
        return plain(*args)

    def read(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
        prompt = vars(cache).setdefault("prompts", {}).setdefault(layer, pair[0].shape[2])
        for index, early in enumerate((masks[0].long().cumsum(1) == 0).sum(1).tolist()):
            for x in pair if past and early else ():
                x[index, :, prompt - early : -early] = x[index, :, prompt:].clone()
                x[index, :, -early:] = 0
        return pair

    def rule(cells: Cells) -> torch.Tensor:
        if not cells.past:
            return cells.rule
        early = (cells.real.long().cumsum(-1) == 0).sum(-1, keepdim=True)
        return cells.rule & (cells.distance >= early)

    patch.wrap(modeling_qwen3_decoder, "positions", positions)
    own_cache(read, keep=False)(patch)
    decoder_mask(rule=rule)(patch)


def newest_evicted(cells: Cells) -> torch.Tensor:
    """A full window drops the newest of its tokens to make space."""
    if not cells.window or not cells.past:
        return cells.rule
    stays = (cells.key >= cells.past) | (cells.key < cells.window - len(cells.query))
    return cells.causal & stays & cells.real


def of_last_layer(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
    """All layers write into one buffer; what is left of earlier calls is the last layer's."""
    last = cache.layers[-1]
    if past and layer < len(cache.layers) - 1:
        for x, theirs in zip(pair, (last.keys, last.values), strict=True):
            x[:, :, :past] = theirs[:, :, :past]
    return pair


_BOTH = "merged_attn.cache_keys merged_attn.cache_values"
_NEWEST = "merged_attn.k_rope merged_attn.cache_values"
_STEPS, _CHUNKS = "decoder/ragged_decode encdec/ragged", "encdec/unrotated decoder/window_chunks"

ROWS = (
    row("E051", "a prompt behind cached tokens reads the pages without their table, as if rows lay without gaps",
        "tanishqkumar/ssd#23", "paged cache", _CHUNKS, behind_past(without_block_table), _NEWEST,
        also="merged_attn.cache_keys"),
    row("E052", "8-bit keys are appended call by call and read head by head: heads, rows and tokens are mixed up",
        "Pushkinist/rMLX#103", "quantised cache", "decoder/plain decoder/head_dim_64_ragged",
        own_cache(calls_joined, keep=False), "merged_attn.k_rope", also="merged_attn.cache_keys"),
    row("E053", "pages lie as far apart as if tokens had no scale behind them: the next page overwrites a page's end",
        "ovg-project/kvcached#424", "quantised cache", "decoder/plain decoder/ragged_decode", prompts(narrow_pages),
        _BOTH),
    row("E054", "when the longest row has left, tokens are appended as many slots early as the others are padded",
        "jundot/omlx#2172", "scheduling", "decoder/ragged_decode decoder/head_dim_64_ragged", by_longest_left,
        f"{_NEWEST} merged_attn.mask", also="merged_attn.cache_keys"),
    row("E055", "the prompt's values are written in one layout and read by decode steps in another",
        "alibaba/rtp-llm#1240", "layout", "decoder/plain encdec/ragged", own_cache(two_layouts, keep=False),
        "merged_attn.cache_values"),
    row("E056", "a core's run of blocks goes on over the end of a head: the next head's first slots stay empty",
        "tenstorrent/tt-metal#54742", "slots", "encdec/ragged decoder/head_dim_64", prompts(across_heads), _BOTH),
    row("E057", "a full window drops its newest tokens instead of its oldest", "JaydenLyh/Reward-Forcing#5", "window",
        "decoder/window_even decoder/window_chunks", decoder_mask(rule=newest_evicted), "merged_attn.mask"),
    row("E058", "what a later chunk gathers from the cache is stored without the head's offset: all heads at the first",
        "vllm-project/vllm#29887", "chunks", f"decoder/head_dim_64_ragged {_CHUNKS}", behind_past(heads_at_first),
        _BOTH),
    row("E059", "all layers write into one buffer: the past of every layer is the last one's",
        "EfficientMoE/MoE-Infinity#195", "aliasing", _STEPS, own_cache(of_last_layer, keep=False), _BOTH),
)  # fmt: skip
