"""Norms of others: their formula, their weights, the axis they run over, and where they are left out."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.norms import BLOCK, DECODER, HEADS, normed, norms
from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch


def mean_square(norm: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon
    return result


def divided_by_rsqrt(norm: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = norm.weight * (x / torch.rsqrt(mean_square(norm, x)))
    return result


def eps_behind_the_root(norm: Any, x: torch.Tensor) -> torch.Tensor:
    rms = x.norm(2, dim=-1, keepdim=True) * x.shape[-1] ** -0.5
    result: torch.Tensor = norm.weight * (x / (rms + norm.variance_epsilon))
    return result


def one_added(norm: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = (1.0 + norm.weight) * (x * torch.rsqrt(mean_square(norm, x)))
    return result


def over_all_heads(norm: Any, x: torch.Tensor) -> torch.Tensor:
    """`[batch, length, heads, head_dim]`: one mean square for a token's whole projection."""
    whole = x.pow(2).mean((-2, -1), keepdim=True) + norm.variance_epsilon
    result: torch.Tensor = norm.weight * (x * torch.rsqrt(whole))
    return result


def layer_norms(formula: Any) -> Seed:
    """The LayerNorms of the classic encoder are `formula(norm, x - mean, variance)`, the variance without eps."""

    def forward(norm: Any, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        result: torch.Tensor = norm.weight * formula(norm, centred, centred.pow(2).mean(-1, keepdim=True)) + norm.bias
        return result

    def seed(patch: Patch) -> None:
        for module in [m for m in patch.model.modules() if isinstance(m, torch.nn.LayerNorm)]:
            patch.setattr(module, "forward", lambda x, module=module: forward(module, x))

    return seed


def unbiased(norm: Any, x: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    size = x.shape[-1]
    result: torch.Tensor = x * torch.rsqrt(variance * size / (size - 1) + norm.eps)
    return result


def squared(norm: Any, x: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = x / (variance + norm.eps) ** 2
    return result


def first_rows_weight(patch: Patch) -> None:
    first, *others = patch.attentions("decoder")
    for attention in others:
        patch.change(attention.k_norm.weight, first.k_norm.weight.detach())


def values_instead_of_queries(patch: Patch) -> None:
    def heads(plain: Any, projected: torch.Tensor, norm: Any) -> Any:
        return normed(norm, plain(projected))

    for attention in patch.attentions("decoder"):
        norm = attention.q_norm
        patch.setattr(norm, "forward", lambda x: x.clone())
        patch.wrap(attention, "value_heads", lambda plain, projected, norm=norm: heads(plain, projected, norm))


def weight_of_another_norm(patch: Patch) -> None:
    for layer in patch.layers("decoder"):
        patch.change(layer.post_attention_layernorm.weight, layer.input_layernorm.weight.detach())


_STEPS = "decoder/ragged_decode decoder/plain"
_ENCODER = "encoder.norm input_layernorm post_attention_layernorm self_attn.q_norm self_attn.k_norm"
_CLASSIC = "norm1 norm2 pre_norm.norm"

ROWS = (
    row("D001", "x is divided by the reciprocal RMS instead of multiplied", "mosaicml/llm-foundry#371",
        "norm formula", "decoder/multiples_of_256", norms(divided_by_rsqrt, "norm", *BLOCK),
        "decoder.norm input_layernorm post_attention_layernorm"),
    row("D002", "eps is added to the RMS behind the root", "allenai/OLMo#281", "norm formula", _STEPS,
        norms(eps_behind_the_root, "norm", *BLOCK, *HEADS), DECODER),
    row("D003", "the encoder's norms add 1 to weights that have it already", "utensils/mold#1078", "norm weight",
        "encoder/ragged encoder/window_odd", norms(one_added, "norm", *BLOCK, *HEADS, stack="encoder"), _ENCODER),
    row("D004", "LayerNorm divides by the unbiased standard deviation, of n - 1",
        "harvardnlp/annotated-transformer#119", "norm formula", "classic/pre_norm", layer_norms(unbiased), _CLASSIC,
        levels="modules layer"),
    row("D005", "LayerNorm squares the variance where its root is to be taken",
        "131250208/TPlinker-joint-extraction#37", "norm formula", "classic/post_norm classic/bert",
        layer_norms(squared), "norm1 norm2"),
    row("D006", "every layer's k_norm takes the first row of the stacked weights, layer 0's", "vllm-project/vllm#56431",
        "norm weight", _STEPS, first_rows_weight, "merged_attn.k_norm"),
    row("D007", "keys and values are normed, and queries are not", "kyegomez/MegaVIT#17", "norm wiring", _STEPS,
        values_instead_of_queries, "merged_attn.q_norm merged_attn.cache_values"),
    row("D008", "the hidden states that the head reads were taken before the final norm",
        "vllm-project/speculators#313", "norm wiring", "decoder/head_dim_64_ragged long/last_rows",
        norms(lambda _norm, x: x.clone(), "norm"), "decoder.norm"),
    row("D009", "q and k are normed over all heads together, before they are split", "Alpha-VLLM/Lumina-T2X#112",
        "norm axis", "encoder/window_odd encdec/ragged", norms(over_all_heads, *HEADS, stack="encoder"),
        "self_attn.q_norm self_attn.k_norm"),
    row("D010", "the norm before the MLP got the weights of another norm of its layer",
        "NVIDIA-NeMo/Megatron-Bridge#4201", "norm weight", "encdec/unpadded encdec/window", weight_of_another_norm,
        "post_attention_layernorm"),
)  # fmt: skip
