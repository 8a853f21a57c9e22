"""Wrong norms: of the stream, of queries and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.mutant import Mutant, Seed, attention, words
from detection.mutants.patch import Patch
from qwen3_encdec.attention import ProjectedAttention
from qwen3_encdec.merged_attention import Qwen3MergedAttention
from qwen3_encdec.norm import Qwen3RMSNorm

Norm = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]
"""`norm(x, weight, eps)`."""

BLOCK = words("input_layernorm post_attention_layernorm")
HEADS = attention("q_norm k_norm encoder_k_norm")
ALL = BLOCK | HEADS | words("encoder.norm decoder.norm")
BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
LOW = ("op/rms_norm_float16", "op/rms_norm_bfloat16")


def everywhere(norm: Norm) -> Seed:
    """Every norm of both stacks computed by `norm`."""

    def seed(patch: Patch) -> None:
        patch.setattr(Qwen3RMSNorm, "forward", lambda self, x: norm(x, self.weight, self.variance_epsilon))

    return seed


def only(*names: str, norm: Norm, layers: slice = slice(None)) -> Seed:
    """The norms of these names in a layer or its attention computed by `norm`."""

    def seed(patch: Patch) -> None:
        for layer, attn in list(zip(patch.layers(), patch.attentions(), strict=True))[layers]:
            for name in names:
                found = getattr(layer, name, None) or getattr(attn, name)
                patch.setattr(found, "forward", lambda x, m=found: norm(x, m.weight, m.variance_epsilon))

    return seed


def root(x: torch.Tensor, eps: float) -> torch.Tensor:
    """The root of the mean square, `[..., 1]`."""
    return (x.float().pow(2).mean(-1, keepdim=True) + eps).sqrt()


def right(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm as it should be."""
    return weight * (x.float() / root(x, eps)).to(x.dtype)


def eps_times(factor: float) -> Norm:
    return lambda x, weight, eps: right(x, weight, eps * factor)


def outside_root(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * (x / (root(x, 0.0) + eps))


def one_plus(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return right(x, 1 + weight, eps)


def layernorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return right(x - x.mean(-1, keepdim=True), weight, eps)


def by_variance(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + eps)


def bessel(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    n = x.shape[-1]
    return weight * x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) / (n - 1) + eps)


def by_sum(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + eps)


def by_mean_magnitude(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x / (x.abs().mean(-1, keepdim=True) + eps)


def no_root(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x / root(x, eps) ** 2


def unnormed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x


def half_squares(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    mean = x.half().pow(2).mean(-1, keepdim=True).float()
    return weight * (x.float() * torch.rsqrt(mean + eps)).to(x.dtype)


def no_upcast(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def approximate_root(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x * (1 / root(x, eps)).bfloat16().float()


def last_channel_unweighted(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return right(x, torch.cat((weight[:-1], torch.ones_like(weight[-1:]))), eps)


def first_half_only(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x / root(x[..., : x.shape[-1] // 2], eps)


def over_all_heads(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x / root(x.flatten(2), eps)[..., None]


def clamped(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return right(x, weight, eps).clamp(-3, 3)


def absent(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x


def after_rope(patch: Patch) -> None:
    """QK-norm behind the rotation; the port says that it has no taps before it."""
    patch.setattr(ProjectedAttention, "query_heads", lambda m, x: m._split_heads(x).transpose(1, 2))
    patch.setattr(ProjectedAttention, "key_heads", lambda m, x: m._split_heads(x).transpose(1, 2))

    def attend(plain: Any, m: Any, queries: Any, keys: Any, *rest: Any) -> Any:
        return plain(m, Qwen3RMSNorm.forward(m.q_norm, queries), Qwen3RMSNorm.forward(m.k_norm, keys), *rest)

    patch.wrap(ProjectedAttention, "attend", attend)
    shown = [pattern for pattern in patch.runner.run.materialised if not pattern.endswith(("q_norm", "k_norm"))]
    patch.runner.run.ClearField("materialised")
    patch.runner.run.materialised.extend(shown)


def values_for_queries(patch: Patch) -> None:
    only("q_norm", norm=absent)(patch)
    patch.wrap(ProjectedAttention, "value_heads", lambda plain, m, x: Qwen3RMSNorm.forward(m.q_norm, plain(m, x)))
    for attn in patch.attentions():
        norm = attn.q_norm
        patch.setattr(norm, "forward", lambda x: x)


def encoder_keys_unnormed(patch: Patch) -> None:
    inside = [False]

    def half(plain: Any, *args: Any) -> Any:
        inside[0] = True
        try:
            return plain(*args)
        finally:
            inside[0] = False

    patch.wrap(Qwen3MergedAttention, "encoder_keys_values", half)
    for attn in patch.attentions("decoder"):
        patch.wrap(attn, "k_norm", lambda plain, x: x if inside[0] else plain(x))


def over_positions(patch: Patch) -> None:
    patch.wrap(
        ProjectedAttention,
        "query_heads",
        lambda plain, m, x: m.q_norm(m._split_heads(x).permute(0, 2, 3, 1)).transpose(2, 3),
    )


MUTANTS = (
    Mutant("NRM-01", "eps 10 × too large in block norms", only(*BLOCK, norm=eps_times(10)), BLOCK, words("norm.eps"),
           BOTH),
    Mutant("NRM-01/half", "eps halved in every norm", everywhere(eps_times(0.5)), ALL, words("norm.eps"), BOTH[1:2]),
    Mutant("NRM-01/none", "no eps in any norm", everywhere(eps_times(0)), ALL, words("norm.eps"), BOTH[1:2]),
    Mutant("NRM-01/heads", "eps 10 × too large in QK-norm", only("q_norm", "k_norm", norm=eps_times(10)), HEADS,
           words("norm.eps"), BOTH),
    Mutant("NRM-04", "eps outside the root", everywhere(outside_root), ALL, words("norm.eps_outside_root"), BOTH[1:2]),
    Mutant("NRM-05", "1 + weight", only(*BLOCK, norm=one_plus), BLOCK, words("norm.one_plus_weight"), BOTH),
    Mutant("NRM-05/heads", "1 + weight in QK-norm", only("q_norm", "k_norm", norm=one_plus), HEADS,
           words("norm.one_plus_weight"), BOTH),
    Mutant("NRM-06", "LayerNorm: mean subtracted", everywhere(layernorm), ALL, words("norm.layernorm"), BOTH),
    Mutant("NRM-06/variance", "variance for the mean square", everywhere(by_variance), ALL, words("norm.variance"),
           BOTH),
    Mutant("NRM-09", "squares summed in float16", only(*BLOCK, norm=half_squares), BLOCK, words("norm.half_precision"),
           BOTH),
    Mutant("NRM-09/overflow", "squares summed in float16, model in half precision", everywhere(half_squares), ALL,
           words("norm.half_precision"), LOW),
    Mutant("NRM-10", "statistics in the model's half precision", everywhere(no_upcast), ALL,
           words("norm.half_precision"), LOW[:1]),
    Mutant("QKN-01", "no QK-norm", only("q_norm", "k_norm", norm=absent), HEADS, words("norm.no_norm"), BOTH),
    Mutant("QKN-02", "QK-norm after RoPE", after_rope, attention("q_rope k_rope"), words("rope.before_norm"), BOTH[2:]),
    Mutant("QKN-05", "v normed in place of q", values_for_queries,
           attention("q_norm cache_values cache_encoder_values") | words("self_attn.context"),
           words("norm.no_norm wiring.extra_norm"), BOTH),
    Mutant("QKN-09", "encoder's keys not normed", encoder_keys_unnormed, words("merged_attn.encoder_k_norm"),
           words("norm.no_norm"), BOTH[:2]),
    Mutant("QKN-10", "q normed over positions", over_positions, attention("q_norm"), frozenset(), BOTH[:1]),
    Mutant("own/norm-bessel", "sum of squares over n - 1", everywhere(bessel), ALL, words("norm.bessel fit.factor"),
           BOTH),
    Mutant("own/norm-sum", "sum for mean", only("k_norm", norm=by_sum), attention("k_norm encoder_k_norm"),
           words("norm.sum_not_mean norm.l2"), BOTH),
    Mutant("own/norm-magnitude", "mean of |x| for the root of the mean square",
           only("input_layernorm", norm=by_mean_magnitude), words("input_layernorm"), words("norm.l1"), BOTH),
    Mutant("own/norm-no-root", "divided by the mean square", only("input_layernorm", norm=no_root),
           words("input_layernorm"), words("norm.no_root"), BOTH),
    Mutant("own/norm-weight-only", "weight without normalising", only("q_norm", norm=unnormed), attention("q_norm"),
           words("norm.weight_only"), BOTH),
    Mutant("own/norm-fast-root", "reciprocal root of 8 bits", only("post_attention_layernorm", norm=approximate_root),
           words("post_attention_layernorm"), words("norm.half_precision"), BOTH),
    Mutant("own/norm-last-channel", "last channel's weight is 1", only("input_layernorm", norm=last_channel_unweighted),
           words("input_layernorm"), words("fit.channel_factor fit.concentrated"), BOTH),
    Mutant("own/norm-half-row", "statistics of the first half of a row", only("input_layernorm", norm=first_half_only),
           words("input_layernorm"), words("norm.partial"), BOTH),
    Mutant("own/norm-all-heads", "QK-norm over all heads at once", only("q_norm", norm=over_all_heads),
           attention("q_norm"), words("norm.all_heads"), BOTH),
    Mutant("own/norm-clamped", "result clamped to ±3", only("input_layernorm", norm=clamped), words("input_layernorm"),
           words("norm.clamped"), BOTH),
    Mutant("own/norm-one-layer", "LayerNorm in the encoder's second layer alone",
           only("input_layernorm", norm=layernorm, layers=slice(1, 2)), words("input_layernorm"),
           words("norm.layernorm"), ("encdec/ragged", "encoder/ragged")),
)  # fmt: skip
