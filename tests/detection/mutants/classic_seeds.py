"""How wrong code is put into the classic encoder, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec.transformer_encoder import (
    TransformerEncoder,
    TransformerEncoderBlock,
)


def blocks(forward: Callable[..., torch.Tensor]) -> Seed:
    """Every block computed by `forward(block, x, attend)`, `attend` its attention with the padding filled in."""

    def run(block: Any, x: torch.Tensor, mask: Any = None, return_attention: bool = False) -> Any:
        return forward(block, x, lambda y: block.self_attn(y, mask)[0]), None

    return lambda patch: patch.setattr(TransformerEncoderBlock, "forward", run)


def post(patch: Patch) -> None:
    for layer in patch.model.layers:
        patch.setattr(layer, "pre_norm", False)


def pre(block: Any, x: torch.Tensor, attend: Any) -> torch.Tensor:
    x = x + attend(block.norm1(x))
    result: torch.Tensor = x + block.feed_forward(block.norm2(x))
    return result


def stream_normed(block: Any, x: torch.Tensor, attend: Any) -> torch.Tensor:
    x = block.norm1(x)
    x = x + attend(x)
    result: torch.Tensor = x + block.feed_forward(block.norm2(x))
    return result


def branch_unnormed(block: Any, x: torch.Tensor, attend: Any) -> torch.Tensor:
    block.norm1(x)
    x = x + attend(x)
    result: torch.Tensor = x + block.feed_forward(block.norm2(x))
    return result


def sum_unnormed(block: Any, x: torch.Tensor, attend: Any) -> torch.Tensor:
    x = x + attend(x)
    result: torch.Tensor = block.norm2(x + block.feed_forward(block.norm1(x)))
    return result


def last_norm_extra(patch: Patch) -> None:
    last = patch.model.layers[-1].norm2
    patch.setattr(patch.model, "norm", lambda x: functional.layer_norm(x, x.shape[-1:], last.weight, last.bias))


def positions(change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Seed:
    """Rows of the table at `change(slots [batch, seq], mask [batch, seq])`."""

    def seed(patch: Patch) -> None:
        seen: list[torch.Tensor] = []

        def forward(plain: Any, model: Any, ids: torch.Tensor, mask: Any = None, *rest: Any) -> Any:
            seen[:] = [torch.ones_like(ids) if mask is None else mask.long()]
            return plain(model, ids, mask, *rest)

        def rows(plain: Any, slots: torch.Tensor) -> Any:
            return plain(change(slots.expand(seen[0].shape), seen[0]))

        patch.wrap(TransformerEncoder, "forward", forward)
        patch.wrap(patch.model.embed_positions, "forward", rows)

    return seed


def norms_exchanged(patch: Patch) -> None:
    for layer in patch.model.layers:
        one, two = layer.norm1, layer.norm2
        patch.setattr(one, "forward", lambda x, m=two: functional.layer_norm(x, x.shape[-1:], m.weight, m.bias, m.eps))
        patch.setattr(two, "forward", lambda x, m=one: functional.layer_norm(x, x.shape[-1:], m.weight, m.bias, m.eps))
