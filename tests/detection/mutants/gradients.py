"""Seeded bugs of training: gradients that are cut, or counted twice."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from detection.mutants.entry import entry
from detection.mutants.mutant import Seed, words
from detection.mutants.mutant import attention as in_attention
from detection.mutants.patch import Patch
from qwen3_encdec.merged_attention import Qwen3MergedAttention
from qwen3_parity.recording.ours import training as implementation_training

TIED, UNTIED, CAUSAL = "training/tied", "training/untied", "training/causal"
EVERY = (TIED, UNTIED, CAUSAL)


def gradients(text: str) -> frozenset[str]:
    """The gradients of these taps of both stacks' attention."""
    return frozenset(f"gradient.{name}" for name in in_attention(text))


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


_KEYS = gradients("k_rope encoder_k_rope encoder_k_norm encoder_k_proj")
_LAYER = frozenset(
    f"gradient.{name}.weight"
    for name in (
        *(f"merged_attn.{module}" for module in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
        *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"),
    )
)

MUTANTS = (
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
    entry("own/gradient-padding", "looking up the pad token trains it", padding_trained,
          words("gradient.shared.weight"), "gradient.padding_idx", (TIED,)),
    entry("own/gradient-scaled", "loss divided by 4 accumulated steps, and none follow", scaled(0.25),
          words("gradient.logits"), "gradient.scaled", EVERY),
    entry("own/gradient-twice", "a decoder layer's gradients added twice", twice_in_layers, _LAYER, "gradient.twice",
          (TIED, CAUSAL)),
)  # fmt: skip
