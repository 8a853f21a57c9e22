"""Seeded bugs: parameters that no checkpoint filled, or that are other tensors of it."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.configs import CONFIGS
from detection.mutants.entry import entry
from detection.mutants.layouts import LAYOUTS
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import (
    LINEAR,
    MLP,
    NORMS,
    decoder_norm,
    embedding,
    head,
    noise,
    taken,
    taps,
    weight_of,
    weights,
)

_MERGED = ("encdec/ragged", "encdec/unrotated", "encdec/window")
_QWEN2 = ("encdec/qwen2",)
_UNTIED = ("decoder/window_chunks", "encdec/window")
_TIED = ("decoder/ragged_decode", "encdec/ragged")
_LAYERS = (*NORMS, *LINEAR, "q_norm", "k_norm", *MLP)


def _ones(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    return torch.ones_like(weight)


def _final_norm(values: Any) -> Seed:
    def seed(patch: Patch) -> None:
        for stack in (patch.model.encoder, patch.model.decoder):
            patch.change(stack.norm.weight, values(stack))

    return seed


def _bias(name: str, values: Any) -> Seed:
    def seed(patch: Patch) -> None:
        found = [(attention, values(attention).detach().clone()) for attention in patch.attentions("decoder")]
        for attention, bias in found:
            patch.change(getattr(attention, name).bias, bias)

    return seed


_NEVER_LOADED = (
    entry("NRM-13", "block norms keep weights of 1", weights(_ones, *NORMS), NORMS, "norm.no_weight",
          (*_TIED, *_UNTIED)),
    entry("QKN-06", "QK-norms keep weights of 1", weights(_ones, "q_norm", "k_norm"), taps("q_norm", "k_norm"),
          "norm.no_weight", _MERGED),
    entry("FNL-01", "final norms keep weights of 1", _final_norm(lambda stack: torch.ones_like(stack.norm.weight)),
          ("encoder.norm", "decoder.norm"), "norm.no_weight", _MERGED),
    entry("WLD-04", "one layer's attention is never loaded",
          weights(noise, *LINEAR, "q_norm", "k_norm", layers=slice(1, 2)), taps(*LINEAR, "q_norm", "k_norm"),
          "weight.unknown", _MERGED),
    entry("EMB-06", "the encoder's embedding is never loaded", embedding("encoder", lambda w: noise(w, 0)),
          ("encoder.embed_tokens",), "weight.unknown", _MERGED),
    entry("HED-01/tied", "a tied head is one of its own, never loaded", head(lambda _, w: noise(w, 0)), ("logits",),
          "weight.unknown", _TIED),
)  # fmt: skip


_OTHER = (
    entry("NRM-12", "every layer has layer 0's norms",
        taken(lambda s, n, layer, _: (s, n, 0) if layer else None, *NORMS), NORMS, "weight.other_tensor",
        (*_TIED, *_UNTIED)),
    entry("QKN-04", "q_norm and k_norm are exchanged",
        taken(lambda s, n, layer, _: (s, "k_norm" if n == "q_norm" else "q_norm", layer), "q_norm", "k_norm"),
        taps("q_norm", "k_norm"), "weight.other_tensor", _MERGED),
    entry("FNL-06", "the final norm is the last layer's post_attention_layernorm",
        decoder_norm(lambda patch: weight_of(patch, "decoder", -1, NORMS[1]).detach().clone()), ("decoder.norm",),
        "weight.other_tensor", (*_TIED, *_UNTIED)),
    entry("own/weight-final-norm-of-encoder", "the decoder's final norm is the encoder's",
        decoder_norm(lambda patch: patch.model.encoder.norm.weight.detach().clone()), ("decoder.norm",),
        "weight.other_tensor", _MERGED),
    entry("HED-01", "an untied head is the embedding",
        head(lambda patch, _: patch.model.shared.weight.detach().clone()), ("logits",), "weight.other_tensor", _UNTIED),
    entry("HED-04", "the embedding is copied over an untied head",
        lambda patch: patch.change(patch.model.lm_head.weight, patch.model.shared.weight.detach().clone()), ("logits",),
        "weight.other_tensor", _UNTIED),
    entry("HED-02", "logits are made with the embedding, the head lies unused",
        lambda patch: patch.setattr(patch.model, "lm_head", lambda x: x @ patch.model.shared.weight.T), ("logits",),
        "weight.other_tensor", _UNTIED),
    entry("RES-08", "the encoder's layers are the decoder's",
        taken(lambda s, n, layer, _: ("decoder", n, layer), *_LAYERS, stack="encoder"), taps(*_LAYERS, stack="encoder"),
        "weight.other_tensor", _MERGED),
    entry("RES-09", "one norm before attention and before the MLP",
        taken(lambda s, n, layer, _: (s, NORMS[0], layer), NORMS[1]), NORMS[1:], "weight.other_tensor",
        (*_TIED, *_UNTIED)),
    entry("WLD-10", "norms stored layer by layer are read kind by kind",
        taken(lambda s, n, layer, depth: (s, NORMS[(at := layer + depth * NORMS.index(n)) % 2], at // 2), *NORMS),
        NORMS, "weight.other_tensor", (*_TIED, *_UNTIED)),
    entry("own/weight-layers-exchanged", "layers 0 and 1 are exchanged",
        taken(lambda s, n, layer, _: (s, n, 1 - layer) if layer < 2 else None, *_LAYERS), taps(*_LAYERS),
        "weight.other_tensor", _MERGED),
    entry("own/weight-layer-before", "k_proj is the layer's before",
        taken(lambda s, n, layer, _: (s, n, layer - 1) if layer else None, "k_proj"), taps("k_proj"),
        "weight.other_tensor", _MERGED),
    entry("own/weight-keys-values", "k_proj and v_proj are exchanged",
        taken(lambda s, n, layer, _: (s, "v_proj" if n == "k_proj" else "k_proj", layer), "k_proj", "v_proj"),
        taps("k_proj", "v_proj"), "weight.other_tensor", _MERGED),
    entry("own/weight-of-encoder", "the decoder's down_proj is the encoder's",
        taken(lambda s, n, layer, _: ("encoder", n, layer), MLP[2]), (MLP[2],), "weight.other_tensor", _MERGED),
    entry("own/weight-biases", "k_proj has v_proj's bias", _bias("k_proj", lambda a: a.v_proj.bias), taps("k_proj"),
        "weight.other_tensor fit.channel_offset", _QWEN2),
)  # fmt: skip

MUTANTS = (*_NEVER_LOADED, *_OTHER, *LAYOUTS, *CONFIGS)
