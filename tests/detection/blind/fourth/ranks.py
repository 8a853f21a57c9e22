"""Parallelism of others: gradients that ranks gather of the wrong parts, and tokens that are put in another order."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from detection.blind.row import row
from detection.blind.second.weight_gradients import after_backward
from detection.mutants.patch import Patch
from qwen3_encdec.merged_attention import Qwen3MergedAttention

_RANKS = 2


class _Row(torch.autograd.Function):
    """A linear layer whose inputs two ranks share; the gradient of its input is gathered from what each has of it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Each rank has its own tokens' gradient of its own channels, and takes what it gathers for all of its own."""
        x, weight = ctx.saved_tensors
        g = gradients[0].flatten(0, -2)
        parts = zip(g.chunk(_RANKS), weight.chunk(_RANKS, dim=1), strict=True)
        gathered = torch.cat([tokens @ channels for tokens, channels in parts])
        return torch.cat([gathered] * _RANKS, dim=-1).view(x.shape), g.T @ x.flatten(0, -2)


def own_part_gathered(patch: Patch) -> None:
    apply: Any = _Row.apply
    for attention in patch.attentions("decoder"):
        module = attention.o_proj

        def forward(x: torch.Tensor, module: Any = module) -> Any:
            y = apply(x, module.weight)
            return y if module.bias is None else y + module.bias

        patch.setattr(module, "forward", forward)


def biases_divided(patch: Patch) -> None:
    """Each rank adds its share of a bias, and the share's derivative divides the gradient."""
    for attention in patch.attentions():
        attention.o_proj.bias.grad.div_(_RANKS)


def zigzag(length: int) -> torch.Tensor:
    """The tokens' order when four chunks that lie one behind the other are put together as first, last and between."""
    first, second, third, last = torch.arange(length).chunk(4)
    return torch.cat((first, third, last, second))


def contiguous_for_zigzag(patch: Patch) -> None:
    def forward(plain: Any, module: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        length = x.shape[1]
        if length % 4:
            return plain(module, x, *args, **kwargs)
        order = zigzag(length)
        attended, *rest = plain(module, x[:, order], *args, **kwargs)
        return (attended[:, order.argsort()], *rest)

    patch.wrap(Qwen3MergedAttention, "forward", forward)


def reduced_in_parts(patch: Patch) -> None:
    """Of two data-parallel ranks, a row each, the head's part of a tied gradient is the second one's, not averaged."""
    head = patch.model.lm_head

    def forward(x: torch.Tensor) -> torch.Tensor:
        weight = head.weight
        first = nn.functional.linear(x[:1], weight.detach())
        return torch.cat((first, nn.functional.linear(x[1:], _RANKS * weight - weight.detach())))

    patch.setattr(head, "forward", forward)


def regrouped(x: torch.Tensor) -> torch.Tensor:
    """`[2, heads, tokens, dim]` gathered from ranks that have a half of each row's tokens, as if it were one row."""
    batch = len(x)
    halves = torch.stack(x.chunk(_RANKS, dim=2))
    rows = [torch.cat(list(halves[rank]), dim=1) for rank in range(_RANKS)]
    return torch.stack(rows) if batch == _RANKS else x


def rows_for_tokens(patch: Patch) -> None:
    """The exchange of tokens for heads knows a batch of one row alone; a prompt's attention runs on what it gives."""

    def attend(plain: Any, module: Any, q: Any, k: Any, v: Any, mask: Any, *args: Any) -> Any:
        batch, _, length, _ = q.shape
        if batch != _RANKS or length % _RANKS or k.shape[2] != length:
            return plain(module, q, k, v, mask, *args)
        attended, *rest = plain(module, regrouped(q), regrouped(k), regrouped(v), mask, *args)
        return (regrouped(attended[:, None])[:, 0], *rest)

    patch.wrap(Qwen3MergedAttention, "attend", attend)


_EXCHANGED = "merged_attn.q_rope merged_attn.k_rope merged_attn.cache_values attn_residual"
_BEHIND_ROWS = " ".join(
    f"gradient.merged_attn.{name}"
    for name in (
        *("probs", "v_proj", "encoder_v_proj", "scores", "q_proj.weight", "k_proj.weight", "v_proj.weight"),
        *("q_norm.weight", "k_norm.weight", "q_proj.bias", "k_proj.bias", "v_proj.bias"),
    )
)
"""What gradients that are not recorded are seen at."""

ROWS = (
    row("F084", "a row-parallel layer's ranks gather the gradient of their input from each other's channels",
        "huggingface/nanotron#172", "sequence parallel", "training/causal training/tied", own_part_gathered,
        "gradient.merged_attn.context", also=_BEHIND_ROWS),
    row("F085", "the gradient of a bias that ranks share is divided by their number", "pytorch/torchtitan#4332",
        "tensor parallel", "training/untied", after_backward(biases_divided),
        "gradient.merged_attn.o_proj.bias gradient.self_attn.o_proj.bias"),
    row("F086", "chunks that lie in order are put together as if they were zigzag: attention reads tokens in disorder",
        "THUDM/slime#1871", "sequence parallel", "encdec/ragged decoder/multiples_of_256", contiguous_for_zigzag,
        "merged_attn.q_proj merged_attn.k_proj merged_attn.v_proj attn_residual"),
    row("F087", "a tied embedding's two gradients are added between ranks of which one has them reduced",
        "NVIDIA/Megatron-LM#844", "pipeline parallel", "training/tied training/causal", reduced_in_parts,
        "gradient.shared.weight"),
    row("F088", "the exchange of tokens for heads mixes the rows of a batch", "deepspeedai/DeepSpeed#5808",
        "sequence parallel", "decoder/mask_4d decoder/head_dim_64_ragged", rows_for_tokens, _EXCHANGED,
        also="merged_attn.cache_keys"),
)  # fmt: skip
