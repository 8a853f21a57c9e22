"""Memory of others: strides that are dropped, buffers that are overwritten or not cleared, and races."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code

_THREADS = 4
"""Keys that threads work on at the same time."""


def unstrided(patch: Patch) -> None:
    """The mean square is of a row of a transposed matrix; what is normed is read as if rows lay in one piece."""

    def forward(norm: Any, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(0, -2)
        rows, width = flat.shape
        scale = torch.rsqrt(flat.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
        address = torch.arange(rows)[:, None] + torch.arange(width)
        read = flat.T.flatten()[address] if rows > 1 else flat
        result: torch.Tensor = norm.weight * (read * scale)
        return result.view(x.shape)

    for layer in patch.layers("decoder"):
        norm = layer.post_attention_layernorm
        patch.setattr(norm, "forward", lambda x, norm=norm: forward(norm, x))


def squared_in_place(patch: Patch) -> None:
    """The squares are written where x lies, which is then normed."""

    def forward(norm: Any, x: torch.Tensor) -> Any:
        squares = x.pow(2)
        return norm.weight * (squares * torch.rsqrt(squares.mean(-1, keepdim=True) + norm.variance_epsilon))

    for layer in patch.layers():
        norm = layer.input_layernorm
        patch.setattr(norm, "forward", lambda x, norm=norm: forward(norm, x))


def lagging_half(patch: Patch) -> None:
    """The second half of a prompt token's channels reads its factor when the next token's sum is there already."""

    def forward(plain: Any, x: torch.Tensor, norm: Any) -> Any:
        half = x.shape[-1] // 2
        result = plain(x).clone()
        next_sum = x[:, 1:, :, :half].pow(2).sum(-1, keepdim=True)
        result[:, :-1, :, half:] = norm.weight[half:] * (x[:, :-1, :, half:] * next_sum)
        return result

    for attention in patch.attentions("decoder"):
        for norm in (attention.q_norm, attention.k_norm):
            patch.wrap(norm, "forward", lambda plain, x, norm=norm: forward(plain, x, norm))


def largest_of_next_head(_plain: Any, scores: torch.Tensor, mask: Any, dtype: torch.dtype) -> torch.Tensor:
    """In decode steps the second half of the keys is taken to the next head's largest score."""
    masked = scores if mask is None else scores + mask
    if scores.shape[2] > 1:
        return masked.softmax(-1).to(dtype)
    largest = masked.amax(-1, keepdim=True).expand_as(masked).clone()
    half = (masked.shape[-1] + 1) // 2
    largest[..., half:] = largest.roll(-1, 1)[..., half:]
    weights = (masked - largest).exp()
    return (weights / weights.sum(-1, keepdim=True)).to(dtype)


def last_of_threads(patch: Patch) -> None:
    """In decode steps all threads of a block share the place of their key and value: the last one's stays."""

    def shared(x: torch.Tensor, queries: int) -> torch.Tensor:
        keys = torch.arange(x.shape[2])
        last = (keys // _THREADS * _THREADS + _THREADS - 1).clamp(max=x.shape[2] - 1)
        return x[:, :, last] if queries == 1 else x

    def scores(plain: Any, q: torch.Tensor, k: torch.Tensor, *args: Any) -> Any:
        return plain(q, shared(k, q.shape[2]), *args)

    def context(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
        return plain(probs, shared(v, probs.shape[2]), groups)

    patch.function(code.scaled_scores, scores)
    patch.function(code.weighted_values, context)


def accumulator_left(patch: Patch) -> None:
    """The second of two products is added to what the first one left."""
    for layer in patch.layers("decoder"):
        left: list[torch.Tensor] = []

        def gate(plain: Any, x: torch.Tensor, left: list[torch.Tensor] = left) -> Any:
            left[:] = [plain(x)]
            return left[0]

        def up(plain: Any, x: torch.Tensor, left: list[torch.Tensor] = left) -> Any:
            return left[0] + plain(x)

        patch.wrap(layer.mlp.gate_proj, "forward", gate)
        patch.wrap(layer.mlp.up_proj, "forward", up)


_STEPS = "decoder/ragged_decode encdec/ragged"

ROWS = (
    row("E093", "a norm reads the values that it scales without their stride", "ModelTC/LightLLM#1467", "strides",
        "decoder/plain_two_rows encdec/unpadded", unstrided, "post_attention_layernorm"),
    row("E094", "a norm's squares are written over its input: x² is normed", "apache/tvm#19644", "aliasing",
        "encoder/ragged decoder/mask_4d", squared_in_place, "input_layernorm"),
    row("E095", "half of a token's channels are multiplied by the next token's sum of squares",
        "gittensor-ai-lab/sparkinfer#705", "race", "decoder/plain encdec/ragged", lagging_half,
        "merged_attn.q_norm merged_attn.k_norm merged_attn.encoder_k_norm"),
    row("E096", "half of the keys are weighed by the largest score of the next head", "NVIDIA/cutlass#3597", "race",
        _STEPS, lambda patch: patch.function(code.probabilities, largest_of_next_head), "merged_attn.probs"),
    row("E097", "threads share the place of their keys and values: of four keys the last one counts four times",
        "1bit-MONSTER/1bit-MONSTER#393", "race", "decoder/head_dim_64 encdec/ragged", last_of_threads,
        "merged_attn.scores merged_attn.context"),
    row("E098", "the accumulator is not cleared between two products: up has gate added",
        "tile-ai/tilelang#2617", "uninitialised", _STEPS, accumulator_left, "mlp.up_proj"),
)  # fmt: skip
