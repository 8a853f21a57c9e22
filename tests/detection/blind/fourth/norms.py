"""Norms of others: what they divide by, what a padded block adds, and what is not normed at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.first.norms import BLOCK, DECODER, HEADS, norms
from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch

_TILE = 32
"""Channels of a tile."""

Variance = Callable[[torch.Tensor], torch.Tensor]
"""`variance(x)`: that of the last axis, kept."""


def variance_for_mean_square(norm: Any, x: torch.Tensor) -> torch.Tensor:
    """The statistic is `torch.var`, centred and of n - 1, and x itself is not centred."""
    result: torch.Tensor = norm.weight * (x * torch.rsqrt(x.var(-1, keepdim=True) + norm.variance_epsilon))
    return result


def eps_beside_the_count(norm: Any, x: torch.Tensor) -> torch.Tensor:
    """A bracket is closed too late: eps is added to the number of channels."""
    total = x.pow(2).sum(-1, keepdim=True)
    result: torch.Tensor = norm.weight * (x * torch.rsqrt(total / (x.shape[-1] + norm.variance_epsilon)))
    return result


def layer_norms(variance: Variance) -> Seed:
    """The LayerNorms of the classic encoder with another variance."""

    def forward(norm: Any, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        result: torch.Tensor = norm.weight * (centred * torch.rsqrt(variance(x) + norm.eps)) + norm.bias
        return result

    def seed(patch: Patch) -> None:
        for module in [m for m in patch.model.modules() if isinstance(m, torch.nn.LayerNorm)]:
            patch.setattr(module, "forward", lambda x, module=module: forward(module, x))

    return seed


def with_padded_block(x: torch.Tensor) -> torch.Tensor:
    """A block is a power of 2 wide, filled with 0, and what fills it is centred and squared, too."""
    size = x.shape[-1]
    block = torch.nn.functional.pad(x, (0, 2 ** (size - 1).bit_length() - size))
    return (block - x.mean(-1, keepdim=True)).pow(2).sum(-1, keepdim=True) / size


def by_padded_count(x: torch.Tensor) -> torch.Tensor:
    """The mean is that of the channels; their squares are divided by the number that whole tiles hold."""
    size = x.shape[-1]
    return (x - x.mean(-1, keepdim=True)).pow(2).sum(-1, keepdim=True) / (-(-size // _TILE) * _TILE)


def queries_alone(patch: Patch) -> None:
    """The norm is called on the first of attention's three inputs: keys and values are made of the stream."""
    for layer in patch.layers("encoder"):
        stream: list[torch.Tensor] = []

        def keep(x: torch.Tensor, stream: list[torch.Tensor] = stream) -> torch.Tensor:
            stream[:] = [x]
            return x

        patch.on_input(layer, keep)
        for projection in (layer.self_attn.k_proj, layer.self_attn.v_proj):
            patch.wrap(projection, "forward", lambda plain, _x, stream=stream: plain(stream[0]))


def last_sum_not_normed(patch: Patch) -> None:
    patch.setattr(patch.model.layers[-1].norm2, "forward", lambda x: x.clone())


_BLOCKS = "decoder.norm input_layernorm post_attention_layernorm"

ROWS = (
    row("F001", "the variance stands for the mean square, and x is not centred",
        "huggingface/pytorch-image-models#2380", "norm formula", "decoder/plain encdec/ragged",
        norms(variance_for_mean_square, "norm", *BLOCK), _BLOCKS),
    row("F002", "LayerNorm's variance counts what fills a block up to a power of 2", "triton-lang/triton#9838",
        "norm formula", "classic/pre_norm classic/bert", layer_norms(with_padded_block),
        "norm1 norm2 pre_norm.norm", levels="modules layer"),
    row("F003", "eps is added to the number of channels instead of the mean square", "xlite-dev/LeetCUDA#317",
        "norm eps", "decoder/window_chunks encdec/window", norms(eps_beside_the_count, "norm", *BLOCK, *HEADS),
        DECODER, also="merged_attn.encoder_k_norm"),
    row("F004", "queries are made of the normed stream, keys and values of the stream itself",
        "facebookresearch/xformers#233", "norm wiring", "encoder/ragged encdec/ragged", queries_alone,
        "self_attn.k_proj self_attn.v_proj"),
    row("F005", "the last block of a post-norm stack does not norm its last sum", "lucidrains/x-transformers#37",
        "norm wiring", "classic/post_norm classic/bert", last_sum_not_normed, "norm2"),
    row("F006", "the variance is divided by the channels of whole tiles", "tenstorrent/tt-metal#53277",
        "norm formula", "classic/bert classic/post_norm", layer_norms(by_padded_count), "norm1 norm2"),
)  # fmt: skip
