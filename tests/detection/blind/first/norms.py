"""Norms of others: their statistics, their eps, what they read, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch

Formula = Callable[[Any, torch.Tensor], torch.Tensor]
"""`formula(norm, x)`: what stands for the module's forward."""

BLOCK, HEADS = ("input_layernorm", "post_attention_layernorm"), ("q_norm", "k_norm")
DECODER = "decoder.norm input_layernorm post_attention_layernorm merged_attn.q_norm merged_attn.k_norm"


def norms(formula: Formula, *names: str, stack: str = "decoder") -> Seed:
    """The norms of these names in a stack ("norm" is the final one) are computed by `formula`."""

    def seed(patch: Patch) -> None:
        layers, attentions = patch.layers(stack), patch.attentions(stack)
        modules = [getattr(layer, name) for layer in layers for name in names if name in BLOCK]
        modules += [getattr(attention, name) for attention in attentions for name in names if name in HEADS]
        modules += [getattr(patch.model, stack).norm] if "norm" in names else []
        for module in modules:
            patch.setattr(module, "forward", lambda x, module=module: formula(module, x))

    return seed


def normed(norm: Any, x: torch.Tensor) -> torch.Tensor:
    """As it is written."""
    result: torch.Tensor = norm.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    return result


def factor_in_bfloat16(norm: Any, x: torch.Tensor) -> torch.Tensor:
    factor = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    result: torch.Tensor = norm.weight * (x * factor.bfloat16().float())
    return result


def eps_behind_rescale(norm: Any, x: torch.Tensor) -> torch.Tensor:
    largest = x.abs().amax(-1, keepdim=True).clamp(min=1e-12)
    small = x / largest
    result: torch.Tensor = (
        norm.weight * small * torch.rsqrt(small.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    )
    return result


def eps_floor(norm: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = (
        norm.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + max(norm.variance_epsilon, 1e-3))
    )
    return result


def sum_in_bfloat16(norm: Any, x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(x[..., :1])
    for part in torch.split(x, 4, dim=-1):
        total = (total + part.pow(2).sum(-1, keepdim=True)).bfloat16().float()
    result: torch.Tensor = norm.weight * x * torch.rsqrt(total / x.shape[-1] + norm.variance_epsilon)
    return result


def by_shard(norm: Any, x: torch.Tensor) -> torch.Tensor:
    halves = torch.unflatten(x, -1, (2, -1))
    factor = torch.rsqrt(halves.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    result: torch.Tensor = norm.weight * (halves * factor).flatten(-2)
    return result


def stale_residual(patch: Patch) -> None:
    before: list[torch.Tensor] = []

    def formula(norm: Any, x: torch.Tensor) -> torch.Tensor:
        stale = before.pop() if before else x.new_zeros(())
        before.append(x.clone())
        return normed(norm, x + stale if stale.shape == x.shape else x)

    norms(formula, "norm")(patch)


def skipped_in_decode(norm: Any, x: torch.Tensor) -> torch.Tensor:
    return normed(norm, x) if x.shape[1] > 1 else x.clone()


def fused_memory(patch: Patch) -> None:
    """q_norm walks the memory of the fused projection, whose rows also hold k and v."""
    for attention in patch.attentions("decoder"):
        latest: list[torch.Tensor] = []

        def keep(y: torch.Tensor, latest: list[torch.Tensor] = latest) -> torch.Tensor:
            latest.append(y)
            return y

        for name in ("k_proj", "v_proj"):
            patch.result(getattr(attention, name), "forward", keep)

        def forward(x: torch.Tensor, norm: Any = attention.q_norm, latest: list[torch.Tensor] = latest) -> Any:
            fused = torch.cat((x.flatten(-2), *latest[-2:]), dim=-1)
            latest.clear()
            return normed(norm, fused.flatten()[: x.numel()].view(x.shape))

        patch.setattr(attention.q_norm, "forward", forward)


_ROWS = "decoder/ragged_decode decoder/plain"

ROWS = (
    row("B001", "the reciprocal RMS of a row is rounded to bfloat16", "amd/IRON#139", "norm", _ROWS,
        norms(factor_in_bfloat16, "norm", *BLOCK, *HEADS), DECODER),
    row("B002", "eps is added behind a division by the largest |x|, so it grows with its square",
        "apple/coremltools#2821", "norm", _ROWS, norms(eps_behind_rescale, "norm", *BLOCK, *HEADS), DECODER),
    row("B003", "eps is raised to what half precision can hold", "nntrainer/nntrainer#4318", "norm", _ROWS,
        norms(eps_floor, "norm", *BLOCK, *HEADS), DECODER),
    row("B004", "the norm of q ignores the stride of a view of the fused q, k, v", "turboderp-org/exllamav2#554",
        "norm", _ROWS, fused_memory, "merged_attn.q_norm"),
    row("B005", "tensor-parallel ranks norm their half of the channels by its own mean square",
        "sgl-project/sglang#20967", "norm", _ROWS, norms(by_shard, "norm"), "decoder.norm"),
    row("B006", "the fused norm adds a residual buffer that nobody cleared", "vllm-project/vllm#41972", "norm",
        _ROWS, stale_residual, "decoder.norm"),
    row("B007", "the cached decode path leaves the norms of q and k out", "paiml/aprender#2085", "norm", _ROWS,
        norms(skipped_in_decode, *HEADS), "merged_attn.q_norm merged_attn.k_norm"),
    row("B008", "the sum of squares is accumulated in bfloat16", "tenstorrent/tt-metal#49600", "norm", _ROWS,
        norms(sum_in_bfloat16, "norm", *BLOCK, *HEADS), DECODER),
)  # fmt: skip
