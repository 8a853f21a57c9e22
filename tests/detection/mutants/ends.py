"""Wrong ends of the network: embeddings, final norm, head."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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


def looked_up(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change` of the ids that both embeddings look up."""

    def seed(patch: Patch) -> None:
        for stack in (patch.model.encoder, patch.model.decoder):
            patch.wrap(stack.embed_tokens, "forward", lambda plain, ids: plain(change(ids)))

    return seed


def sinusoids(x: torch.Tensor) -> torch.Tensor:
    angles = torch.arange(x.shape[1])[:, None] / 1e4 ** torch.linspace(0, 1, x.shape[-1] // 2)
    return x + torch.cat((angles.sin(), angles.cos()), -1)


def scaled_behind(patch: Patch) -> None:
    """Scaled between the embedding and the first layer."""
    for stack in ("encoder", "decoder"):
        patch.given(patch.layers(stack)[0], lambda x: x * x.shape[-1] ** 0.5)


def normed_embedding(patch: Patch) -> None:
    for stack in ("encoder", "decoder"):
        first = patch.layers(stack)[0]
        patch.given(first, partial(Qwen3RMSNorm.forward, first.input_layernorm))


def final(change: Callable[[Any, torch.Tensor], torch.Tensor]) -> Seed:
    """`change(norm, x)` in the place of the decoder's final norm."""

    def seed(patch: Patch) -> None:
        norm = patch.model.decoder.norm
        patch.setattr(norm, "forward", lambda x: change(norm, x))

    return seed


def twice(norm: Any, x: torch.Tensor) -> torch.Tensor:
    return Qwen3RMSNorm.forward(norm, Qwen3RMSNorm.forward(norm, x))


def normed_in_head(patch: Patch) -> None:
    norm = patch.model.decoder.norm
    patch.given(patch.model.lm_head, lambda x: Qwen3RMSNorm.forward(norm, x))


def shown_before(patch: Patch) -> None:
    """The network is right; its last state is handed over before the norm."""
    normed_in_head(patch)
    final(lambda norm, x: x)(patch)


def between_layers(patch: Patch) -> None:
    for stack in ("encoder", "decoder"):
        norm = getattr(patch.model, stack).norm
        for layer in patch.layers(stack)[1:]:
            patch.given(layer, partial(Qwen3RMSNorm.forward, norm))


def head(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change` of the logits."""
    return lambda patch: patch.wrap(patch.model.lm_head, "forward", lambda plain, x: change(plain(x)))


def head_given(change: Callable[[torch.Tensor], torch.Tensor]) -> Seed:
    """`change` of what the head is given."""
    return lambda patch: patch.given(patch.model.lm_head, change)


def head_before_norm(patch: Patch) -> None:
    kept: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x

    patch.given(patch.model.decoder.norm, keep)
    patch.given(patch.model.lm_head, lambda x: kept[-1])


def head_rows_moved(x: torch.Tensor) -> torch.Tensor:
    return x.roll(1, -1)


def cut_head(x: torch.Tensor) -> torch.Tensor:
    return x.index_fill(-1, torch.arange(x.shape[-1] - 4, x.shape[-1]), -1e4)


def one_step_late(patch: Patch) -> None:
    """In decode steps the head reads the step before's state."""
    kept: list[torch.Tensor] = []

    def change(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return kept[-2][:, -1:] if x.shape[1] == 1 and len(kept) > 1 else x

    patch.given(patch.model.lm_head, change)


MUTANTS = (
    Mutant("EMB-01", "embeddings times √hidden", embedded(lambda x: x * x.shape[-1] ** 0.5), EMBEDDED,
           words("embedding.scaled fit.factor"), BOTH),
    Mutant("EMB-01/stream", "times √hidden in front of the first layer", scaled_behind, words("input"),
           words("embedding.scaled fit.factor"), BOTH),
    Mutant("EMB-02", "scale rounded to bfloat16",
           embedded(lambda x: x * torch.tensor(40.0).sqrt().bfloat16().to(x.dtype)), EMBEDDED,
           words("embedding.scaled fit.factor"), ("encdec/bfloat16",)),
    Mutant("own/embedding-next", "the next id's row", looked_up(lambda ids: (ids + 1) % 200), EMBEDDED,
           words("embedding.other_row"), BOTH),
    Mutant("own/embedding-clamped", "ids above 99 clamped", looked_up(lambda ids: ids.clamp(max=99)), EMBEDDED,
           words("embedding.clamped embedding.other_row"), BOTH),
    Mutant("own/embedding-wrapped", "ids modulo 100", looked_up(lambda ids: ids % 100), EMBEDDED,
           words("embedding.wrapped embedding.other_row"), BOTH),
    Mutant("own/embedding-positions", "sinusoids added", embedded(sinusoids), EMBEDDED,
           words("embedding.positions_added"), BOTH),
    Mutant("own/embedding-normed", "embeddings normed", normed_embedding, words("input"), words("wiring.extra_norm"),
           BOTH),
    Mutant("own/embedding-bfloat16", "embeddings rounded to bfloat16", embedded(lambda x: x.bfloat16().float()),
           EMBEDDED, words("fit.grid weight.rounded"), BOTH),
    Mutant("own/embedding-last-token", "the last token's row is the first one's",
           embedded(lambda x: torch.cat((x[:, :-1], x[:, :1]), 1)), EMBEDDED,
           words("embedding.other_row fit.concentrated"), (BOTH[0], BOTH[3])),
    Mutant("own/embedding-dropout", "dropout behind the embeddings", embedded(lambda x: functional.dropout(x, 0.1)),
           EMBEDDED, words("fit.dropout"), BOTH),
    Mutant("FNL-02", "final norm twice", final(twice), FINAL, words("norm.twice"), DECODER),
    Mutant("FNL-02/head", "final norm again in the head", normed_in_head, LOGITS, words("wiring.extra_norm"), DECODER),
    Mutant("FNL-04", "last state handed over before the norm", shown_before, FINAL, words("tap.misplaced"), DECODER),
    Mutant("FNL-05", "final norm between layers", between_layers, words("input"), words("wiring.extra_norm"), BOTH),
    Mutant("own/final-none", "no final norm", final(lambda norm, x: x), FINAL, words("norm.no_norm"), DECODER),
    Mutant("own/final-eps", "final norm with eps of 1e-5",
           final(lambda norm, x: norm.weight * functional.rms_norm(x, x.shape[-1:], eps=1e-5)), FINAL,
           words("norm.eps"), DECODER[1:2]),
    Mutant("own/final-last-token", "the final norm of the last token alone",
           final(lambda norm, x: torch.cat((x[:, :-1], Qwen3RMSNorm.forward(norm, x[:, -1:])), 1)), FINAL,
           words("norm.no_norm fit.concentrated"), DECODER),
    Mutant("HED-12", "logits rounded to bfloat16", head(lambda x: x.bfloat16().float()), LOGITS, words("fit.grid"),
           DECODER),
    Mutant("own/head-scaled", "tied head scaled by 1 / √hidden", head(lambda x: x * 40**-0.5), LOGITS,
           words("fit.factor"), DECODER),
    Mutant("own/head-softcap", "soft cap 30", head(lambda x: 30 * (x / 30).tanh()), LOGITS, words("logits.softcap"),
           DECODER),
    Mutant("own/head-bias", "a bias", head(lambda x: x + torch.linspace(-1, 1, x.shape[-1])), LOGITS,
           words("weight.extra_bias fit.channel_offset"), DECODER),
    Mutant("own/head-rows", "rows moved by one", head(head_rows_moved), LOGITS, words("fit.shift weight.permuted"),
           DECODER),
    Mutant("own/head-cut", "the last four rows masked", head(cut_head), LOGITS, words("fit.concentrated"), DECODER),
    Mutant("own/head-softmax", "log-probabilities for logits", head(lambda x: x.log_softmax(-1)), LOGITS,
           words("logits.log_softmax"), DECODER),
    Mutant("own/head-unnormed", "the head reads the stream before the norm", head_before_norm, LOGITS,
           words("wiring.other_input"), DECODER),
    Mutant("own/head-first-token", "the token before's state", head_given(lambda x: x.roll(1, 1)), LOGITS,
           words("fit.shift wiring.shifted"), DECODER[:2]),
    Mutant("own/head-late", "the step before's state", one_step_late, LOGITS, words("wiring.previous_step"), DECODER),
    Mutant("own/head-last-token", "the last state for every token", head_given(lambda x: x[:, -1:].expand_as(x)),
           LOGITS, words("fit.concentrated wiring.shifted"), DECODER),
)  # fmt: skip
