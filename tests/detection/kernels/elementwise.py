"""Bugs of norms, activations, rotations and sums: widths, tails, approximations, half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import hardsigmoid, silu

from detection.kernels.seeds import Change, bug, cleared, half, of_layers, replaced, running_sum, tail, whole
from detection.mutants.mutant import Seed, attention, words
from detection.mutants.patch import Patch
from qwen3_encdec import rope
from qwen3_encdec.norm import Qwen3RMSNorm

Norm = Callable[[Any, torch.Tensor], torch.Tensor]
STREAM = words("input_layernorm post_attention_layernorm encoder.norm decoder.norm")
HEADS = attention("q_norm k_norm encoder_k_norm")
ACT = words("mlp.act")
ROTATED = attention("q_rope k_rope encoder_k_rope")


def norms(kernel: Norm, of_heads: bool) -> Seed:
    """Another norm of the stream, or of queries and keys."""

    def seed(patch: Patch) -> None:
        def around(plain: Any, m: Any, x: torch.Tensor) -> Any:
            return kernel(m, x) if (x.ndim == 4) == of_heads else plain(m, x)

        patch.wrap(Qwen3RMSNorm, "forward", around)

    return seed


def scaled(m: Any, x: torch.Tensor, square: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    return (m.weight if weight is None else weight) * (x * torch.rsqrt(square + m.variance_epsilon))


def divided_by_padded(block: int) -> Norm:
    def norm(m: Any, x: torch.Tensor) -> torch.Tensor:
        return scaled(m, x, x.pow(2).sum(-1, keepdim=True) / (-(-x.shape[-1] // block) * block))

    return norm


def tail_not_squared(m: Any, x: torch.Tensor) -> torch.Tensor:
    return scaled(m, x, whole(x, -1, 16).pow(2).sum(-1, keepdim=True) / x.shape[-1])


def tail_not_weighted(m: Any, x: torch.Tensor) -> torch.Tensor:
    weight = torch.cat((whole(m.weight, 0, 4), torch.ones_like(tail(m.weight, 0, 4))))
    return scaled(m, x, x.pow(2).mean(-1, keepdim=True), weight)


def one_plus_weight(m: Any, x: torch.Tensor) -> torch.Tensor:
    return scaled(m, x, x.pow(2).mean(-1, keepdim=True), 1 + m.weight)


def fast_inverse_root(m: Any, x: torch.Tensor) -> torch.Tensor:
    """The root by its bits and one step of Newton's."""
    square = x.pow(2).mean(-1, keepdim=True) + m.variance_epsilon
    y = (0x5F3759DF - (square.view(torch.int32) >> 1)).view(torch.float32)
    return m.weight * (x * (y * (1.5 - 0.5 * square * y * y)))  # type: ignore[no-any-return]


def bfloat16_squares(m: Any, x: torch.Tensor) -> torch.Tensor:
    return scaled(m, x, running_sum(x.pow(2), torch.bfloat16)[..., None] / x.shape[-1])


def scale_of_pairs(m: Any, x: torch.Tensor) -> torch.Tensor:
    """Two rows at a time, both by the first one's scale."""
    square = x.pow(2).mean(-1, keepdim=True)
    first = square[:, ::2].repeat_interleave(2, dim=1)[:, : square.shape[1]]
    return scaled(m, x, first)


def activation(act: Change) -> Seed:
    return of_layers(lambda patch, layer: patch.setattr(layer.mlp, "act_fn", act))


def silu_by_exp(exp: Change) -> Seed:
    return activation(lambda x: x / (1 + exp(-x)))


def crude_exp(x: torch.Tensor) -> torch.Tensor:
    return (1 + x / 256).clamp(min=0.0) ** 256


def tail_not_activated(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((silu(whole(x, -1, 16)), tail(x, -1, 16)), -1)


def pairs_beyond_four_unrotated(plain: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    rotated = torch.arange(x.shape[-1]) % (x.shape[-1] // 2) < 4
    return torch.where(rotated, plain(x, cos, sin), x)


def heads_beyond_four_unrotated(plain: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    return torch.cat((plain(x[:, :4], cos, sin), x[:, 4:]), 1)


def angle_of_the_tile(plain: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    first = torch.arange(cos.shape[1]) // 2 * 2
    return plain(x, cos[:, first], sin[:, first])


def tables(change: Change) -> Seed:
    return replaced(rope.apply_rotary, lambda plain, x, cos, sin: plain(x, change(cos), change(sin)))


def residual(join: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Seed:
    """Another sum behind the feed-forward block: what its module returns makes the layer's own sum come out as it."""

    def seed(patch: Patch) -> None:
        def forward(plain: Any, layer: Any, *args: Any, **kwargs: Any) -> Any:
            branch, stream = list[torch.Tensor](), list[torch.Tensor]()
            hooks = (
                layer.mlp.register_forward_hook(lambda _m, _i, out: branch.append(out)),
                layer.post_attention_layernorm.register_forward_pre_hook(lambda _m, i: stream.append(i[0])),
            )
            result = plain(layer, *args, **kwargs)
            for hook in hooks:
                hook.remove()
            out = join(stream[0], branch[0])
            return (out, *result[1:]) if isinstance(result, tuple) else out

        for kind in {type(layer) for layer in patch.layers()}:
            patch.wrap(kind, "forward", forward)

    return seed


MUTANTS = (
    bug("norm-width-16", "the norm divides by its width padded to blocks of 16",
        norms(divided_by_padded(16), False), STREAM),
    bug("head-norm-width-16", "QK-norm divides by head_dim padded to 16", norms(divided_by_padded(16), True), HEADS),
    bug("norm-tail-not-squared", "squares beyond whole blocks of 16 channels are missing in the norm",
        norms(tail_not_squared, False), STREAM),
    bug("head-norm-tail-unweighted", "components beyond whole blocks of 4 are not multiplied by QK-norm's weight",
        norms(tail_not_weighted, True), HEADS),
    bug("norm-one-plus-weight", "the norm's kernel multiplies by 1 + weight", norms(one_plus_weight, False), STREAM),
    bug("norm-fast-root", "the norm's inverse root by its bits and one step of Newton's",
        norms(fast_inverse_root, False), STREAM),
    bug("norm-bfloat16-sum", "the norm's squares are accumulated in bfloat16", norms(bfloat16_squares, False), STREAM),
    bug("norm-rows-in-pairs", "two tokens at a time are normed by the first one's scale",
        norms(scale_of_pairs, False), STREAM),
    bug("silu-hard", "silu with the hard sigmoid", activation(lambda x: x * hardsigmoid(x)), ACT),
    bug("silu-tanh", "silu with tanh(x) / 2 + 1 / 2, its argument not halved",
        activation(lambda x: x * (0.5 + 0.5 * torch.tanh(x))), ACT),
    bug("silu-crude-exp", "silu with exp(x) as (1 + x / 256) ** 256", silu_by_exp(crude_exp), ACT),
    bug("silu-float16", "silu in float16", activation(lambda x: silu(x.half()).to(x.dtype)), ACT),
    bug("act-tail-16", "channels beyond whole blocks of 16 are not activated", activation(tail_not_activated), ACT),
    bug("rope-pairs-tail-4", "pairs beyond the first 4 are not rotated",
        replaced(rope.apply_rotary, pairs_beyond_four_unrotated), ROTATED),
    bug("rope-heads-tail-4", "heads beyond the first 4 are not rotated",
        replaced(rope.apply_rotary, heads_beyond_four_unrotated), attention("q_rope")),
    bug("rope-tile-angle", "two tokens at a time are rotated by the first one's angle",
        replaced(rope.apply_rotary, angle_of_the_tile), ROTATED),
    bug("rope-bfloat16-tables", "cos and sin are rounded to bfloat16 where they are used",
        tables(half(torch.bfloat16)), ROTATED),
    bug("residual-tail-16", "channels beyond whole blocks of 16 of the feed-forward block are not added",
        residual(lambda stream, branch: stream + cleared(branch, -1, 16)), words("output")),
    bug("residual-bfloat16", "the sum behind the feed-forward block is rounded to bfloat16",
        residual(lambda stream, branch: half(torch.bfloat16)(stream + branch)), words("output")),
)  # fmt: skip
