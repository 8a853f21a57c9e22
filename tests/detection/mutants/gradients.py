"""Seeded bugs of training: a wrong loss, and gradients that are cut, counted twice or taken of another function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from detection.mutants.entry import entry
from detection.mutants.mutant import Seed, words
from detection.mutants.mutant import attention as in_attention
from detection.mutants.patch import Patch
from qwen3_encdec import attention, modeling_qwen3_encdec, rope
from qwen3_encdec.merged_attention import Qwen3MergedAttention
from qwen3_encdec.mlp import Qwen3MLP
from qwen3_encdec.norm import Qwen3RMSNorm
from qwen3_parity.recording.ours import training as implementation_training

IGNORED = -100
TIED, UNTIED, CAUSAL = "training/tied", "training/untied", "training/causal"
EVERY = (TIED, UNTIED, CAUSAL)
_OF_LOSS = ("loss", "gradient.logits")


def gradients(text: str) -> frozenset[str]:
    """The gradients of these taps of both stacks' attention."""
    return frozenset(f"gradient.{name}" for name in in_attention(text))


def loss(value: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Seed:
    """`value(costs, labels)` in the place of the loss; `costs[batch, query]` are 0 where a label is ignored."""

    def seed(patch: Patch) -> None:
        def wrong(logits: torch.Tensor, labels: torch.Tensor, *_: Any) -> torch.Tensor:
            costs = nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
            return value(costs, labels)

        patch.setattr(modeling_qwen3_encdec, "_loss", wrong)

    return seed


def relabelled(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """The loss of `change(labels)`."""

    def seed(patch: Patch) -> None:
        patch.wrap(
            modeling_qwen3_encdec, "_loss", lambda plain, logits, labels, *rest: plain(logits, change(labels), *rest)
        )

    return seed


def to_the_left(labels: torch.Tensor) -> torch.Tensor:
    return torch.cat((labels[:, 1:], torch.full_like(labels[:, :1], IGNORED)), dim=1)


def to_the_right(labels: torch.Tensor) -> torch.Tensor:
    return torch.cat((torch.full_like(labels[:, :1], IGNORED), labels[:, :-1]), dim=1)


def mean_of_rows(costs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (costs.sum(dim=1) / (labels != IGNORED).sum(dim=1)).mean()


def head_detached(patch: Patch) -> None:
    head = patch.model.lm_head
    patch.setattr(head, "forward", lambda x: nn.functional.linear(x, head.weight.detach()))


def encoder_copied(patch: Patch) -> None:
    """The encoder looks tokens up in a copy, as after a deepcopy or a loader that unties: its share is lost."""
    embedding = patch.model.encoder.embed_tokens
    patch.setattr(embedding, "weight", nn.Parameter(embedding.weight.detach().clone()))


def encoder_detached(patch: Patch) -> None:
    def encode(plain: Any, *args: Any, **kwargs: Any) -> Any:
        encoded = plain(*args, **kwargs)
        encoded.last_hidden_state = encoded.last_hidden_state.detach()
        return encoded

    patch.wrap(patch.model, "_encode", encode)


def memory_detached(*which: int) -> Seed:
    """The encoder's keys (0), or its values (1), of every decoder layer without a graph."""

    def change(pair: Any) -> Any:
        return tuple(part.detach() if index in which else part for index, part in enumerate(pair))

    return lambda patch: patch.result(Qwen3MergedAttention, "encoder_keys_values", change)


def repeated(way: Callable[[torch.Tensor, int], torch.Tensor]) -> Seed:
    """Keys and values repeated over query heads with the gradient of `way(x, groups)`, the numbers being right."""

    def around(plain: Any, x: torch.Tensor, n_rep: int) -> torch.Tensor:
        right = plain(x, n_rep)
        if n_rep == 1:
            return right  # type: ignore[no-any-return]
        graph = way(x, n_rep)
        return right.detach() + (graph - graph.detach())  # type: ignore[no-any-return]

    return lambda patch: patch.function(attention.repeat_kv, around)


def first_of_group(x: torch.Tensor, groups: int) -> torch.Tensor:
    rest = [x.detach()] * (groups - 1)
    return torch.stack([x, *rest], dim=2).flatten(1, 2)


def mean_of_group(x: torch.Tensor, groups: int) -> torch.Tensor:
    return (x / groups).repeat_interleave(groups, dim=1)


def norm_without_mean(patch: Patch) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).detach()
        return self.weight * (x * scale)  # type: ignore[no-any-return]

    patch.setattr(Qwen3RMSNorm, "forward", forward)


def softmax_without_sum(patch: Patch) -> None:
    def around(plain: Any, scores: torch.Tensor, *rest: Any) -> torch.Tensor:
        probs = plain(scores, *rest).detach()
        return probs + probs * (scores - scores.detach())  # type: ignore[no-any-return]

    patch.function(attention.probabilities, around)


def padding_trained(patch: Patch) -> None:
    for owner in (patch.model.encoder, patch.model.decoder, patch.model):
        patch.setattr(owner.shared if owner is patch.model else owner.embed_tokens, "padding_idx", None)


def scaled(factor: float) -> Seed:
    """The loss multiplied on its way back."""
    return lambda patch: patch.function(implementation_training.backward, lambda plain, value: plain(value * factor))


def twice_in_layers(patch: Patch) -> None:
    def around(plain: Any, value: torch.Tensor) -> None:
        plain(value)
        for layer in patch.layers("decoder"):
            for parameter in layer.parameters():
                parameter.grad.mul_(2)

    patch.function(implementation_training.backward, around)


def sigmoid_constant(patch: Patch) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        gate = self.gate_proj(x)
        return self.down_proj(gate * torch.sigmoid(gate).detach() * self.up_proj(x))  # type: ignore[no-any-return]

    patch.setattr(Qwen3MLP, "forward", forward)


class _TurnedForwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plain: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ctx.plain = plain
        ctx.save_for_backward(cos, sin)
        return plain(x, cos, sin)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, ctx.plain(gradients[0], *ctx.saved_tensors), None, None


def turned_forwards(patch: Patch) -> None:
    def around(plain: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        return _TurnedForwards.apply(plain, x, cos, sin)  # type: ignore[no-untyped-call]

    patch.function(rope.apply_rotary, around)


_NORMED = words("gradient.output gradient.attn_residual gradient.encoder.embed_tokens gradient.decoder.embed_tokens")
_KEYS = gradients("k_rope encoder_k_rope encoder_k_norm encoder_k_proj")
_LAYER = frozenset(
    f"gradient.{name}.weight"
    for name in (
        *(f"merged_attn.{one}" for one in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
        *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"),
    )
)

MUTANTS = (
    entry("own/loss-shifted-again", "labels shifted although they stand right", relabelled(to_the_left), _OF_LOSS,
          "loss.shifted", EVERY),
    entry("own/loss-own-token", "each position learns its own token", relabelled(to_the_right), _OF_LOSS,
          "loss.shifted", EVERY),
    entry("own/loss-ignored-counted", "ignored labels counted in the mean",
          loss(lambda costs, labels: costs.sum() / labels.numel()), _OF_LOSS, "loss.ignored_counted", EVERY),
    entry("own/loss-ignored-learnt", "ignored labels learnt as token 0",
          relabelled(lambda labels: labels.clamp(min=0)), _OF_LOSS, "loss.ignored_as_token", EVERY),
    entry("own/loss-rows", "mean of the rows' means", loss(mean_of_rows), _OF_LOSS, "loss.mean_of_rows", EVERY),
    entry("own/loss-sum", "sum of the losses", loss(lambda costs, _labels: costs.sum()), _OF_LOSS, "loss.sum", EVERY),
    entry("own/gradient-tied-head", "the tied head trains nothing", head_detached, words("gradient.shared.weight"),
          "gradient.tied_part", (TIED, CAUSAL)),
    entry("own/gradient-tied-encoder", "the encoder looks up in a copy", encoder_copied,
          words("gradient.shared.weight"), "gradient.tied_part", (TIED, UNTIED)),
    entry("own/gradient-encoder-cut", "encoder output detached", encoder_detached, words("gradient.encoder.norm"),
          "gradient.cut", (TIED, UNTIED)),
    entry("own/gradient-memory-cut", "encoder's keys detached", memory_detached(0), _KEYS,
          "gradient.cut gradient.part_missing", (UNTIED, TIED)),
    entry("own/gradient-memory-values", "encoder's values detached", memory_detached(1),
          gradients("encoder_v_proj"), "gradient.cut gradient.part_missing", (TIED, UNTIED)),
    entry("own/gradient-repeat-first", "keys and values hear the first query head of a group",
          repeated(first_of_group), gradients("v_proj encoder_v_proj") | _KEYS, "gradient.group_first", EVERY),
    entry("own/gradient-repeat-mean", "keys and values hear the mean of a group", repeated(mean_of_group),
          gradients("v_proj encoder_v_proj") | _KEYS, "gradient.group_mean", EVERY),
    entry("own/gradient-norm-mean", "RMSNorm goes back without its mean term", norm_without_mean,
          _NORMED | gradients("q_proj k_proj encoder_k_proj"), "gradient.norm_mean", EVERY),
    entry("own/gradient-softmax-sum", "softmax goes back without its sum", softmax_without_sum, gradients("scores"),
          "gradient.softmax_sum", EVERY),
    entry("own/gradient-padding", "looking up the pad token trains it", padding_trained,
          words("gradient.shared.weight"), "gradient.padding_idx", (TIED,)),
    entry("own/gradient-scaled", "loss divided by 4 accumulated steps, and none follow", scaled(0.25),
          words("gradient.logits"), "gradient.scaled", EVERY),
    entry("own/gradient-twice", "a decoder layer's gradients added twice", twice_in_layers, _LAYER, "gradient.twice",
          (TIED, CAUSAL)),
    entry("own/gradient-gate", "silu goes back as if its sigmoid were constant", sigmoid_constant,
          words("gradient.mlp.gate_proj"), "gradient.activation_slope", EVERY),
    entry("own/gradient-rope", "gradients rotated forwards", turned_forwards,
          gradients("q_norm k_norm encoder_k_norm"), "gradient.rope_direction", EVERY),
)  # fmt: skip
