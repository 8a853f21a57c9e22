"""Ways back of others through a block: a rotation, a gate, a skip, a context that is not taken as it should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.blind.first.parallel import output
from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code
from qwen3_encdec.mlp import Qwen3MLP


class _Gated(torch.autograd.Function):
    """`act(gate) · up`, whose two gradients are each stored in the other's place."""

    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        gate, up = ctx.saved_tensors
        share = gate.sigmoid()
        of_up = gradients[0] * gate * share
        of_gate = gradients[0] * up * share * (1 + gate * (1 - share))
        return of_up, of_gate


def gradients_exchanged(block: Any, x: torch.Tensor) -> Any:
    apply: Any = _Gated.apply
    return block.down_proj(apply(block.gate_proj(x), block.up_proj(x)))


class _Contexts(torch.autograd.Function):
    """What arrives as a view of `[batch, heads, query, dim]` is read as `[batch, query, heads, dim]` in memory."""

    @staticmethod
    def forward(ctx: Any, context: torch.Tensor) -> torch.Tensor:
        return context.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0].transpose(1, 2).reshape(gradients[0].shape)


def unstrided_context(patch: Patch) -> None:
    apply: Any = _Contexts.apply
    patch.function(code.weighted_values, lambda plain, *args: apply(plain(*args)))


class _PreNorm(torch.autograd.Function):
    """The stream in front of a norm, whose way back sends the stream's own gradient through the norm, too."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + ctx.eps)
        g = gradients[0] * weight
        return g * r - r**3 * x * (g * x).mean(-1, keepdim=True), None, None


def skip(change: Callable[[Any, torch.Tensor], torch.Tensor]) -> Seed:
    """The stream that the decoder's MLP is added to goes through `change(norm, x)`, which keeps its values."""

    def seed(patch: Patch) -> None:
        streams: list[tuple[torch.Tensor, torch.Tensor]] = []

        def keep(plain: Any, x: torch.Tensor, norm: Any) -> Any:
            streams[:] = [(x, change(norm, x))]
            return plain(x)

        def added(_x: torch.Tensor, stream: torch.Tensor) -> torch.Tensor:
            before, after = streams[0]
            return stream - before + after

        for layer in patch.layers("decoder"):
            norm = layer.post_attention_layernorm
            patch.wrap(norm, "forward", lambda plain, x, norm=norm: keep(plain, x, norm))
        output(added)(patch)

    return seed


def through_norm(norm: Any, x: torch.Tensor) -> torch.Tensor:
    apply: Any = _PreNorm.apply
    result: torch.Tensor = apply(x, norm.weight, norm.variance_epsilon)
    return result


def _of(*names: str) -> str:
    return " ".join(f"gradient.{attention}.{name}" for attention in ("merged_attn", "self_attn") for name in names)


_SKIP = "gradient.attn_residual"
_BEFORE_ATTENTION = (
    "gradient.output gradient.input_layernorm gradient.input_layernorm.weight gradient.decoder.embed_tokens "
    "gradient.encoder.embed_tokens gradient.encoder.norm"
)
"""What the nearest recorded gradients behind attention are."""
_MEMORY = "gradient.merged_attn.encoder_k_rope gradient.merged_attn.encoder_k_norm gradient.merged_attn.encoder_k_proj"
_QK = _of("q_proj", "k_proj", "q_norm.weight", "k_norm.weight", "q_proj.weight", "k_proj.weight") + (
    " " + _of("q_proj.bias", "k_proj.bias") + f" {_BEFORE_ATTENTION} {_MEMORY}"
)
_QKV = f"{_QK} gradient.merged_attn.encoder_v_proj " + _of(
    *("scores", "q_rope", "k_rope", "q_norm", "k_norm", "v_proj.weight", "v_proj.bias"),
)

ROWS = (
    row("D153", "the gradients of gate and up are stored in each other's place", "unslothai/unsloth#3314",
        "backward", "training/causal training/tied",
        lambda patch: patch.setattr(Qwen3MLP, "forward", gradients_exchanged),
        "gradient.mlp.gate_proj gradient.mlp.up_proj",
        also="gradient.attn_residual gradient.post_attention_layernorm gradient.post_attention_layernorm.weight "
        "gradient.mlp.gate_proj.weight gradient.mlp.up_proj.weight"),
    row("D154", "the gradient of the context is read without its strides", "Dao-AILab/flash-attention#355",
        "strides", "training/from_labels training/causal", unstrided_context, _of("probs", "v_proj"), also=_QKV),
    row("D155", "the way back through the MLP's sum leaves the skip out", "paiml/entrenar#313", "backward",
        "training/causal training/tied", skip(lambda _norm, x: x.detach()), _SKIP),
    row("D156", "the skip's gradient goes through the norm, too", "Dao-AILab/quack#53", "backward",
        "training/untied training/causal", skip(through_norm), _SKIP),
)  # fmt: skip
