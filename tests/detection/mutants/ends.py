"""Wrong ends of the network: embeddings, final norm, head."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

from detection.mutants.mutant import Mutant, Seed, words
from detection.mutants.patch import Patch
from qwen3_encdec.norm import Qwen3RMSNorm

EMBEDDED = words("encoder.embed_tokens decoder.embed_tokens")
LOGITS = words("logits")
FINAL = words("decoder.norm")
BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
DECODER = ("encdec/ragged", "encdec/window", "decoder/ragged_decode")


def embedded(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change` of what both embeddings return."""

    def seed(patch: Patch) -> None:
        for stack in (patch.model.encoder, patch.model.decoder):
            patch.wrap(stack.embed_tokens, "forward", lambda plain, ids: change(plain(ids)))

    return seed


def scaled_behind(patch: Patch) -> None:
    """Scaled between the embedding and the first layer."""
    for stack in ("encoder", "decoder"):
        patch.on_input(patch.layers(stack)[0], lambda x: x * x.shape[-1] ** 0.5)


def normed_embedding(patch: Patch) -> None:
    for stack in ("encoder", "decoder"):
        first = patch.layers(stack)[0]
        patch.on_input(first, partial(Qwen3RMSNorm.forward, first.input_layernorm))


def normed_in_head(patch: Patch) -> None:
    norm = patch.model.decoder.norm
    patch.on_input(patch.model.lm_head, lambda x: Qwen3RMSNorm.forward(norm, x))


def shown_before(patch: Patch) -> None:
    """The network is right; its last state is handed over before the norm."""
    normed_in_head(patch)
    patch.setattr(patch.model.decoder.norm, "forward", lambda x: x)


def between_layers(patch: Patch) -> None:
    for stack in ("encoder", "decoder"):
        norm = getattr(patch.model, stack).norm
        for layer in patch.layers(stack)[1:]:
            patch.on_input(layer, partial(Qwen3RMSNorm.forward, norm))


def head_before_norm(patch: Patch) -> None:
    inputs: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        inputs.append(x)
        return x

    patch.on_input(patch.model.decoder.norm, keep)
    patch.on_input(patch.model.lm_head, lambda x: inputs[-1])


def one_step_late(patch: Patch) -> None:
    """In decode steps the head reads the step before's state."""
    inputs: list[torch.Tensor] = []

    def change(x: torch.Tensor) -> torch.Tensor:
        inputs.append(x)
        return inputs[-2][:, -1:] if x.shape[1] == 1 and len(inputs) > 1 else x

    patch.on_input(patch.model.lm_head, change)


MUTANTS = (
    Mutant("EMB-01/stream", "times √hidden in front of the first layer", scaled_behind, words("input"),
           words("embedding.scaled fit.factor"), BOTH),
    Mutant("own/embedding-normed", "embeddings normed", normed_embedding, words("input"), words("wiring.extra_norm"),
           BOTH),
    Mutant("own/embedding-dropout", "dropout behind the embeddings", embedded(lambda x: functional.dropout(x, 0.1)),
           EMBEDDED, words("fit.dropout"), BOTH),
    Mutant("FNL-02/head", "final norm again in the head", normed_in_head, LOGITS, words("wiring.extra_norm"), DECODER),
    Mutant("FNL-04", "last state handed over before the norm", shown_before, FINAL, words("tap.misplaced"), DECODER),
    Mutant("FNL-05", "final norm between layers", between_layers, words("input"), words("wiring.extra_norm"), BOTH),
    Mutant("own/head-unnormed", "the head reads the stream before the norm", head_before_norm, LOGITS,
           words("wiring.other_input"), DECODER),
    Mutant("own/head-late", "the step before's state", one_step_late, LOGITS, words("wiring.previous_step"), DECODER),
)  # fmt: skip
