"""Products, feed-forward blocks, streams and heads of others: tiles, tails, clamps, casts, shifts."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.parallel import output
from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec.mlp import Qwen3MLP


def tiles_not_run(y: torch.Tensor) -> torch.Tensor:
    """Rows of the flattened batch behind the first tile of 8 stay 0."""
    rows = y.flatten(0, 1).clone()
    rows[8:] = 0
    return rows.view(y.shape)


def tile_repeats(y: torch.Tensor) -> torch.Tensor:
    """Rows 4 to 7 of each tile of 8 are rows 0 to 3."""
    rows = torch.arange(y.shape[0] * y.shape[1])
    return y.flatten(0, 1)[torch.where(rows % 8 >= 4, rows - 4, rows)].view(y.shape)


def linear(name: str, change: Any) -> Seed:
    def seed(patch: Patch) -> None:
        for layer in patch.layers("decoder"):
            patch.result(getattr(layer.mlp, name), "forward", change)

    return seed


def k_tail_dropped(patch: Patch) -> None:
    for attention in patch.attentions("decoder"):
        projection = attention.q_proj
        size = projection.in_features // 16 * 16
        patch.setattr(
            projection,
            "forward",
            lambda x, projection=projection, size=size: torch.nn.functional.linear(
                x[..., :size], projection.weight[:, :size], projection.bias
            ),
        )


def gated(block: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = block.down_proj(block.act_fn(gate) * up)
    return result


def default_limit(block: Any, x: torch.Tensor) -> torch.Tensor:
    return gated(block, block.gate_proj(x).clamp(max=7.0), block.up_proj(x).clamp(-7.0, 7.0))


def pairs_of_two(block: Any, x: torch.Tensor) -> torch.Tensor:
    """In each four outputs the middle two take each other's up."""
    gate, up = block.gate_proj(x), block.up_proj(x)
    size = up.shape[-1] // 4 * 4
    mixed = up[..., :size].unflatten(-1, (-1, 2, 2)).transpose(-1, -2).flatten(-3)
    return gated(block, gate, torch.cat((mixed, up[..., size:]), dim=-1))


def head_scaled(patch: Patch) -> None:
    patch.wrap(patch.model.lm_head, "forward", lambda plain, x: plain(x * 0.196))


def padded_on_the_left(patch: Patch) -> None:
    patch.result(
        patch.model.lm_head,
        "forward",
        lambda y: torch.cat((torch.zeros_like(y[:, :1]), y[:, :-1]), dim=1) if y.shape[1] > 1 else y,
    )


_ROWS = "decoder/ragged_decode encdec/ragged"

ROWS = (
    row("B083", "tiles of rows behind the first are never run", "tracel-ai/burn#4966", "product", _ROWS,
        linear("gate_proj", tiles_not_run), "mlp.gate_proj"),
    row("B084", "half of the rows of each tile are the other half's", "tracel-ai/cubecl#1636", "product", _ROWS,
        linear("up_proj", tile_repeats), "mlp.up_proj"),
    row("B085", "the product's inner dimension loses its tail behind whole tiles", "tenstorrent/tt-lang#363",
        "product", _ROWS, k_tail_dropped, "merged_attn.q_proj"),
    row("B086", "a layer's output crosses a border in float16", "openvinotoolkit/openvino#36871", "cast", _ROWS,
        output(lambda _x, stream: stream.half().float(), 1), "output"),
    row("B087", "a missing limit is taken for 7: gate and up are clamped", "ROCm/aiter#4526", "activation",
        "encdec/window encdec/second_request",
        lambda patch: patch.setattr(Qwen3MLP, "forward", default_limit), "mlp.act"),
    row("B088", "a fused epilogue pairs gate and up by twos in the wrong layout", "Dao-AILab/quack#133",
        "activation", _ROWS, lambda patch: patch.setattr(Qwen3MLP, "forward", pairs_of_two), "mlp.act"),
    row("B089", "another family's multiplier scales the hidden states before the head", "unslothai/unsloth#8997",
        "head", _ROWS, head_scaled, "logits"),
    row("B090", "logits are padded on the wrong side: each stands one position late", "nod-ai/amd-shark-ai#1588",
        "head", _ROWS, padded_on_the_left, "logits"),
)  # fmt: skip
