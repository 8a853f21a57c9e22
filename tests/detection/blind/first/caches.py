"""Caches of others that are held in few bits, or hold another request's or another row's tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.cache_seeds import Pair, both_old, old_slots, own_cache
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import merged_attention

Stale = Callable[[torch.Tensor, torch.Tensor, int, int], None]
"""`stale(x, before, past, layer)`: keys or values of a request, and those that the earlier one left."""


def whole_numbers(x: torch.Tensor) -> torch.Tensor:
    scale = (x.abs().amax(-1, keepdim=True) / 127).clamp(min=1.0)
    return (x / scale).round() * scale


def e4m3(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float8_e4m3fn).float()


def by_range_of_queries(patch: Patch) -> None:
    """Keys are held in 8 bits by the largest query before its norm, of the whole call."""
    largest: list[torch.Tensor] = []

    def project(plain: Any, module: Any, states: torch.Tensor) -> Any:
        largest[:] = [module.q_proj.weight.abs().sum(-1).max()]
        return plain(module, states)

    def change(x: torch.Tensor) -> torch.Tensor:
        scale = largest[0] / 127
        return (x / scale).round().clamp(-127, 127) * scale

    patch.wrap(merged_attention.Qwen3MergedAttention, "project", project)
    own_cache(old_slots(change))(patch)


def earlier_request(stale: Stale) -> Seed:
    """The second request on a model finds what the first one left, by `stale`."""

    def seed(patch: Patch) -> None:
        requests: list[Any] = []

        def read(cache: Any, pair: Pair, past: int, layer: int) -> Pair:
            if cache not in requests:
                requests.append(cache)
            if cache is not requests[0]:
                before = requests[0].layers[layer]
                for x, theirs in zip(pair, (before.keys, before.values), strict=True):
                    stale(x, theirs, past, layer)
            return pair

        own_cache(read, keep=False)(patch)

    return seed


def never_trimmed(x: torch.Tensor, before: torch.Tensor, past: int, _layer: int) -> None:
    x[:, :, :past] = before[:, :, :past]


def partial_hit(x: torch.Tensor, before: torch.Tensor, _past: int, _layer: int) -> None:
    x[:, :, :4] = before[:, :, :4]


def windows_evicted(patch: Patch) -> None:
    windows = [attention.sliding_window for attention in patch.attentions("decoder")]

    def stale(x: torch.Tensor, before: torch.Tensor, past: int, layer: int) -> None:
        if windows[layer] is not None and past > 4:
            x[:, :, past - 4 : past] = before[:, :, past - 4 : past]

    earlier_request(stale)(patch)


def ids_of_another_row(patch: Patch) -> None:
    patch.wrap(
        patch.model.decoder.embed_tokens,
        "forward",
        lambda plain, ids: plain(ids.roll(1, 0) if ids.shape[1] == 1 else ids),
    )


_STEPS, _SECOND = "decoder/ragged_decode encdec/ragged", "encdec/second_request"
_BOTH = "merged_attn.cache_keys merged_attn.cache_values"

ROWS = (
    row("B062", "the cache's 8-bit scale was never filled: the past is 0", "InfiniTensor/InfiniLM#553",
        "quantised cache", _STEPS, own_cache(both_old(torch.zeros_like)), _BOTH),
    row("B063", "the 8-bit scale has a floor of 1: whole numbers are left", "lablup/mlxcel#717", "quantised cache",
        _STEPS, own_cache(both_old(whole_numbers)), _BOTH),
    row("B064", "an 8-bit float cache has scales of 1", "NVIDIA/Model-Optimizer#20", "quantised cache", _STEPS,
        own_cache(both_old(e4m3)), _BOTH),
    row("B065", "the scale of 8-bit keys is measured on queries", "NVIDIA/TensorRT-LLM#1557", "quantised cache",
        _STEPS, by_range_of_queries, "merged_attn.cache_keys"),
    row("B066", "a trim that never runs: decode steps read the session before", "nicedreamzapp/claude-code-local#46",
        "prefix cache", _SECOND, earlier_request(never_trimmed), _BOTH),
    row("B067", "a partial hit takes the whole block of another request", "kvcache-ai/Mooncake#4153", "prefix cache",
        _SECOND, earlier_request(partial_hit), "merged_attn.k_rope merged_attn.cache_values",
        also="merged_attn.cache_keys"),
    row("B068", "a prefix hit finds evicted blocks in layers with a window", "ovg-project/kvcached#446",
        "prefix cache", _SECOND, windows_evicted, _BOTH),
    row("B069", "a batch of prompts and decodes hands each row another row's token", "vllm-project/vllm-gaudi#642",
        "scheduling", _STEPS, ids_of_another_row, "decoder.embed_tokens"),
)  # fmt: skip
