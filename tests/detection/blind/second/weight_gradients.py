"""Gradients of weights of others: of a part of the batch or the tokens alone, of one use of two, or in few bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec.norm import Qwen3RMSNorm
from qwen3_parity.recording.ours import training

Back = Callable[[Patch], None]


def detached(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What a linear layer, a norm or an embedding gives, without a way back to its weights."""
    if isinstance(module, nn.Linear):
        bias = None if module.bias is None else module.bias.detach()
        return nn.functional.linear(x, module.weight.detach(), bias)
    if isinstance(module, nn.Embedding):
        return nn.functional.embedding(x, module.weight.detach(), module.padding_idx)
    assert isinstance(module, Qwen3RMSNorm)
    variance = x.pow(2).mean(-1, keepdim=True)
    return module.weight.detach() * (x * torch.rsqrt(variance + module.variance_epsilon))


def weighted(patch: Patch) -> Iterator[nn.Module]:
    """The modules that have weights, each once."""
    yielded: set[int] = set()
    for module in patch.model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding, Qwen3RMSNorm)) and id(module) not in yielded:
            yielded.add(id(module))
            yield module


def last_of_batch(patch: Patch) -> None:
    """Each row is a step of accumulation, and each step starts from nothing: the last one's gradients are left."""
    for module in weighted(patch):

        def forward(plain: Any, x: torch.Tensor, module: nn.Module = module) -> Any:
            return torch.cat((detached(module, x[:-1]), plain(x[-1:])))

        patch.wrap(module, "forward", forward)


def first_tokens_alone(patch: Patch) -> None:
    """The final norm's gradients are those of one rank, which holds the first half of the tokens."""
    norm = patch.model.decoder.norm

    def forward(plain: Any, x: torch.Tensor) -> Any:
        half = (x.shape[1] + 1) // 2
        return torch.cat((plain(x[:, :half]), detached(norm, x[:, half:])), dim=1)

    patch.wrap(norm, "forward", forward)


class _Looked(torch.autograd.Function):
    """Rows of a table, whose way back writes instead of adding."""

    @staticmethod
    def forward(ctx: Any, ids: torch.Tensor, table: torch.Tensor, padding: int | None) -> torch.Tensor:
        ctx.save_for_backward(ids, table)
        ctx.padding = padding
        return table[ids]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ids, table = ctx.saved_tensors
        written = torch.zeros_like(table)
        for index, gradient in zip(ids.flatten().tolist(), gradients[0].flatten(0, -2), strict=True):
            written[index] = 0 if index == ctx.padding else gradient
        return None, written, None


def last_of_same_id(patch: Patch) -> None:
    apply: Any = _Looked.apply
    for table in (patch.model.encoder.embed_tokens, patch.model.decoder.embed_tokens):

        def forward(ids: torch.Tensor, table: Any = table) -> Any:
            return apply(ids, table.weight, table.padding_idx)

        patch.setattr(table, "forward", forward)


def stage_of_lookup(patch: Patch) -> None:
    """The last stage has a copy of the embedding for its head, and nobody adds up the two gradients."""
    head = patch.model.lm_head
    patch.setattr(head, "forward", lambda x: nn.functional.linear(x, head.weight.detach()))


def after_backward(change: Callable[[Patch], None]) -> Seed:
    """`change(patch)` when all gradients are there."""

    def seed(patch: Patch) -> None:
        def around(plain: Any, value: torch.Tensor) -> None:
            plain(value)
            change(patch)

        patch.function(training.backward, around)

    return seed


def layers_untrained(patch: Patch) -> None:
    for layer in patch.layers():
        for parameter in layer.parameters():
            parameter.grad.zero_()


def sums_in_bfloat16(patch: Patch) -> None:
    for parameter in patch.model.parameters():
        if parameter.grad is not None:
            parameter.grad.copy_(parameter.grad.bfloat16())


_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
_LAYER = (
    *(f"gradient.{attention}.{name}.weight" for attention in ("merged_attn", "self_attn") for name in _MODULES),
    *(f"gradient.{attention}.{name}.bias" for attention in ("merged_attn", "self_attn") for name in _MODULES[:4]),
    *(f"gradient.mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
    *("gradient.input_layernorm.weight", "gradient.post_attention_layernorm.weight"),
)
_EVERY = (
    *_LAYER,
    *("gradient.decoder.norm.weight", "gradient.encoder.norm.weight"),
    *("gradient.shared.weight", "gradient.lm_head.weight"),
)
_SHARED = "gradient.shared.weight"

ROWS = (
    row("D157", "between accumulated steps the gradients are dropped: weights get those of the last row alone",
        "NVIDIA-NeMo/Automodel#3530", "accumulation", "training/untied training/causal", last_of_batch, _EVERY,
        levels="modules layer logits"),
    row("D158", "the final norm's gradients are not summed over the ranks that share the tokens",
        "NVIDIA/Megatron-LM#1446", "sequence parallel", "training/causal training/tied", first_tokens_alone,
        "gradient.decoder.norm.weight"),
    row("D159", "of a token that occurs several times the embedding gets the last gradient alone",
        "PaddlePaddle/Paddle#17662", "backward", "training/from_labels training/causal", last_of_same_id, _SHARED),
    row("D160", "a tied embedding's gradients from its two stages are not added up: the head's is missing",
        "uw-syfi/piper#13", "pipeline parallel", "training/causal training/tied", stage_of_lookup, _SHARED),
    row("D161", "checkpointed layers go back to their inputs alone: their weights get no gradient",
        "ooples/AiDotNet.Tensors#643", "checkpointing", "training/tied training/untied",
        after_backward(layers_untrained), _LAYER),
    row("D162", "gradients are added up in bfloat16", "deepspeedai/DeepSpeed#1800", "accumulation",
        "training/untied training/tied", after_backward(sums_in_bfloat16), _EVERY),
)  # fmt: skip
