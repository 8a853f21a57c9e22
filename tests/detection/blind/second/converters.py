"""Weights of others as loaders and merges leave them: adapters, heads, biases, rows in another program's order."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import LINEAR, MLP, everywhere, head, meta_layout, noise, taps, weights

_RANK, _SCALE = 2, 4.0
"""Of an adapter."""


def merged_transposed(weight: torch.Tensor, layer: int) -> torch.Tensor:
    """The adapter's two matrices are read as if each were stored transposed."""
    outputs, inputs = weight.shape
    a, b = noise(weight[:_RANK], layer), noise(weight[:, :_RANK], layer + 9)
    read = b.reshape(_RANK, outputs).T @ a.reshape(inputs, _RANK).T
    return weight + _SCALE * (read - b @ a)


def magnitude_lost(weight: torch.Tensor, layer: int) -> torch.Tensor:
    """Rows keep the length that they have before an adapter's magnitudes are put on them."""
    lengths = 1 + noise(weight[:, :1], layer).clamp(-0.5, 0.5) * 2
    return weight * lengths.clamp(min=0.3)


def head_of_embedding(patch: Patch) -> None:
    patch.change(patch.model.lm_head.weight, patch.model.decoder.embed_tokens.weight.detach().clone())


def initial(patch: Patch, before: torch.Tensor) -> torch.Tensor:
    """What a head holds that is neither tied nor loaded."""
    assert patch.model.config.tie_word_embeddings
    return noise(before, 0) * 0.1


def biases_not_loaded(patch: Patch) -> None:
    for attention in patch.attentions():
        for name in ("q_proj", "k_proj", "v_proj"):
            patch.change(getattr(attention, name).bias, 0.0)


def biases_made_up(patch: Patch) -> None:
    """Linear layers without a bias get one with the values that it is made with."""
    for index, layer in enumerate(patch.layers("decoder")):
        owners: tuple[tuple[Any, tuple[str, ...]], ...] = (
            (layer.merged_attn, LINEAR),
            (layer.mlp, tuple(name.removeprefix("mlp.") for name in MLP)),
        )
        for owner, names in owners:
            for name in names:
                projection = getattr(owner, name)
                bias = noise(projection.weight[:, 0], index) * 5 * projection.in_features**-0.5
                patch.result(projection, "forward", partial(torch.add, bias))


def rows_of_gguf(patch: Patch) -> None:
    dim = patch.model.config.head_dim
    weights(lambda weight, _: meta_layout(weight, dim), "q_proj", "k_proj")(patch)


_MERGED = "encdec/unrotated decoder/plain"

ROWS = (
    row("D124", "an adapter is merged as if its two matrices were stored transposed", "paiml/aprender#2138",
        "adapter", _MERGED, weights(merged_transposed, "q_proj", "v_proj"), taps("q_proj", "v_proj")),
    row("D125", "an adapter of directions and magnitudes is merged without its magnitudes",
        "unslothai/unsloth-zoo#828", "adapter", "decoder/head_dim_64_ragged encdec/ragged",
        weights(magnitude_lost, "v_proj", "o_proj", "mlp.down_proj"), taps("v_proj", "o_proj", "mlp.down_proj")),
    row("D126", "the head of an untied model is the embedding", "pegainfer-project/pegainfer#544", "head",
        "decoder/window_chunks encdec/window", head_of_embedding, "logits"),
    row("D127", "the head of a tied model is never tied and stays as it was initialised",
        "huggingface/transformers#43429", "head", "decoder/plain encdec/ragged", head(initial), "logits"),
    row("D128", "the biases of q, k and v are not loaded", "OminiX-ai/OminiX-MLX#7", "bias", "encdec/qwen2",
        biases_not_loaded, everywhere("q_proj", "k_proj", "v_proj")),
    row("D129", "linear layers get biases that no checkpoint has, as they were initialised",
        "huggingface/optimum#1827", "bias", "decoder/yarn_mscale decoder/plain", biases_made_up,
        taps(*LINEAR, *MLP)),
    row("D130", "q's and k's rows are left in the order of the other kind of rotation",
        "vllm-project/vllm-metal#480", "converter", "decoder/yarn_stated decoder/head_dim_64", rows_of_gguf,
        taps("q_proj", "k_proj")),
)  # fmt: skip
