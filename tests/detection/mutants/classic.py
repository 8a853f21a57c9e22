"""Wrong classic encoders: where norms stand, and what positions count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from detection.mutants.mutant import Mutant, Seed, words
from detection.mutants.patch import Patch
from qwen3_encdec.transformer_encoder import TransformerEncoder, TransformerEncoderBlock

PRE, POST, BERT = ("classic/pre_norm",), ("classic/post_norm",), ("classic/bert",)
ALL = (*PRE, *POST, *BERT)
EMBEDDED = (*PRE, *POST)
ROWS = words("pre_norm.embed_positions post_norm.embed_positions")
PRE_NORM = words("attn_residual self_attn.qkv_proj ff_residual feed_forward.linear1 output")
POST_NORM = words("norm1 norm2 self_attn.qkv_proj feed_forward.linear1 output")


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
        masks: list[torch.Tensor] = []

        def forward(plain: Any, model: Any, ids: torch.Tensor, mask: Any = None, *rest: Any) -> Any:
            masks[:] = [torch.ones_like(ids) if mask is None else mask.long()]
            return plain(model, ids, mask, *rest)

        def rows(plain: Any, slots: torch.Tensor) -> Any:
            return plain(change(slots.expand(masks[0].shape), masks[0]))

        patch.wrap(TransformerEncoder, "forward", forward)
        patch.wrap(patch.model.embed_positions, "forward", rows)

    return seed


def norms_exchanged(patch: Patch) -> None:
    for layer in patch.model.layers:
        first, second = layer.norm1, layer.norm2
        patch.setattr(
            first, "forward", lambda x, m=second: functional.layer_norm(x, x.shape[-1:], m.weight, m.bias, m.eps)
        )
        patch.setattr(
            second, "forward", lambda x, m=first: functional.layer_norm(x, x.shape[-1:], m.weight, m.bias, m.eps)
        )


SEEDS: tuple[tuple[str, str, Seed, frozenset[str], str, tuple[str, ...]], ...] = (
    ("norms-exchanged", "norm1 and norm2 exchanged", norms_exchanged, words("norm1 norm2"), "weight.other_tensor",
     ALL),
    ("post-for-pre", "post-norm blocks", post, POST_NORM, "norm.placement", PRE),
    ("pre-for-post", "pre-norm blocks", blocks(pre), PRE_NORM, "norm.placement residual.branch_missing",
     (*POST, *BERT)),
    ("stream-normed", "the stream goes on normed", blocks(stream_normed), words("attn_residual"),
     "norm.placement", PRE),
    ("branch-unnormed", "attention reads the stream", blocks(branch_unnormed), words("self_attn.qkv_proj"),
     "norm.placement", PRE),
    ("sum-unnormed", "the second sum starts from the first, not from its norm", blocks(sum_unnormed),
     words("ff_residual"), "norm.placement", (*POST, *BERT)),
    ("last-norm-extra", "a norm behind the last layer", last_norm_extra, words("post_norm.last_hidden_state"),
     "norm.extra", POST),
    ("positions-counted", "positions count real tokens",
     positions(lambda at, mask: (mask.cumsum(1) - 1).clamp(min=0)), ROWS, "positions.counts_real", EMBEDDED),
)  # fmt: skip
"""Name behind "own/classic-", the wrong code, its seed, what is wrong, what it is named, the cases."""

MUTANTS = tuple(
    Mutant(f"own/classic-{name}", says, seed, wrong, words(named), cases)
    for name, says, seed, wrong, named, cases in SEEDS
)
