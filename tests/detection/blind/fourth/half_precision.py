"""Half precision of others: activations, partial results, outputs and statistics that lose their last bits."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from detection.blind.first.training import backward, weight_gradient, x_gradient
from detection.blind.row import row
from detection.blind.second.blocks import gated
from detection.blind.second.losses import replaced
from detection.mutants.patch import Patch
from qwen3_encdec import attention as code

_SPLITS, _IGNORED = 4, -100


def brief(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().to(x.dtype)


def partial_contexts(plain: Any, probs: torch.Tensor, v: torch.Tensor, groups: int) -> Any:
    """In decode steps each half of the keys has a context of its own, which is rounded before both are joined."""
    if probs.shape[2] > 1:
        return plain(probs, v, groups)
    size = (v.shape[2] + 1) // 2
    joined = torch.zeros(())
    for weights, values in zip(torch.split(probs, size, dim=3), torch.split(v, size, dim=2), strict=True):
        share = weights.sum(-1, keepdim=True)
        part = brief(plain(weights / share.clamp(min=1e-30), values, groups))
        joined = joined + share.transpose(1, 2) * part
    return joined


def split_sums(patch: Patch) -> None:
    """Four parts of the inner dimension are added up in the output, which holds bfloat16."""

    def forward(x: torch.Tensor, module: Any) -> torch.Tensor:
        parts = zip(x.chunk(_SPLITS, dim=-1), module.weight.chunk(_SPLITS, dim=1), strict=True)
        total = torch.zeros(())
        for values, weight in parts:
            total = brief(total + brief(values @ weight.T))
        return total

    for layer in patch.layers():
        module = layer.mlp.down_proj
        patch.setattr(module, "forward", lambda x, module=module: forward(x, module))


def outputs_in_float16(patch: Patch) -> None:
    for module in patch.model.modules():
        if isinstance(module, nn.Linear):
            patch.result(module, "forward", lambda y: y.half().to(y.dtype))


def factor_rounded(g: Any, x: Any, weight: Any, r: Any) -> Any:
    """What sums the gradient of the weight up reads 1 / RMS in the type of x."""
    return x_gradient(g, x, weight, r), weight_gradient(g, x, brief(r))


class _Recomputed(torch.autograd.Function):
    """A cross-entropy of bfloat16 logits, whose way back has the logits in float32 and the forward's log-sum-exp."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        rounded = brief(logits)
        total = rounded.logsumexp(-1)
        ctx.save_for_backward(logits, total, labels)
        return total - rounded.gather(1, labels[:, None])[:, 0]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        logits, total, labels = ctx.saved_tensors
        probs = (logits - total[:, None]).exp()
        return gradients[0][:, None] * (probs - nn.functional.one_hot(labels, logits.shape[-1])), None


def forward_in_bfloat16(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    apply: Any = _Recomputed.apply
    real = labels != _IGNORED
    costs: torch.Tensor = apply(logits.float()[real], labels[real].long())
    return costs.mean()


_WEIGHTS = "gradient.input_layernorm.weight gradient.post_attention_layernorm.weight gradient.decoder.norm.weight"
_LINEAR = " ".join(
    (
        *(f"{stack}_attn.{part}_proj" for stack in ("merged", "self") for part in "qkvo"),
        *("merged_attn.encoder_k_proj", "merged_attn.encoder_v_proj"),
        *(f"mlp.{part}_proj" for part in ("gate", "up", "down")),
        "logits",
    )
)

ROWS = (
    row("F089", "the activation is rounded to bfloat16 before it is multiplied", "linkedin/Liger-Kernel#414",
        "half precision", "encdec/unpadded decoder/plain", gated(lambda act, gate, up: brief(act(gate)) * up),
        "mlp.act"),
    row("F090", "the contexts of split keys are rounded to bfloat16 before they are joined",
        "flashinfer-ai/flashinfer#5107", "half precision", "decoder/ragged_decode encdec/ragged",
        lambda patch: patch.function(code.weighted_values, partial_contexts), "merged_attn.context"),
    row("F091", "a product's parts are added up in a bfloat16 output", "flagos-ai/FlagGems#5876", "half precision",
        "decoder/plain encdec/ragged", split_sums, "mlp.down_proj"),
    row("F092", "every product's output is float16", "thinking-machines-lab/batch_invariant_ops#11",
        "half precision", "encdec/ragged decoder/plain_two_rows", outputs_in_float16, _LINEAR),
    row("F093", "the gradient of a norm's weight is summed up with 1 / RMS in bfloat16", "pytorch/pytorch#140259",
        "half precision", "training/causal training/untied", backward(factor_rounded), _WEIGHTS),
    row("F094", "the loss has bfloat16 logits, and its way back float32 ones with the same log-sum-exp",
        "marin-community/marin#8217", "half precision", "training/tied training/from_labels",
        replaced(forward_in_bfloat16), "loss gradient.logits"),
)  # fmt: skip
