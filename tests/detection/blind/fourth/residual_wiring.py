"""Streams of others: what layers read, what residuals add, and layers that do not run."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec.decoder_layer import Qwen3DecoderLayer
from qwen3_encdec.transformer_encoder import TransformerEncoderBlock


def all_read_embeddings(patch: Patch) -> None:
    """The loop's result is not handed to the next layer: the last one's is the stack's."""
    first: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        first[:] = [x]
        return x

    layers = patch.layers("encoder")
    patch.on_input(layers[0], keep)
    for layer in layers[1:]:
        patch.on_input(layer, lambda _x: first[0])


def carried_residual_lost(layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """The stream beside the branch is handed on apart from it, and the next layer overwrites it unread."""
    attended, weights, cache = layer.merged_attn(layer.input_layernorm(x), *args, **kwargs)
    stream = x + attended
    branch = layer.mlp(layer.post_attention_layernorm(stream))
    is_last = layer.merged_attn.layer_idx == layer.merged_attn.config.num_hidden_layers - 1
    return (stream + branch if is_last else branch), weights, cache


def branches_to_themselves(layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Both branches take the name of their input, and are added to it."""
    x, weights, cache = layer.merged_attn(layer.input_layernorm(x), *args, **kwargs)
    x = x + x
    x = layer.mlp(layer.post_attention_layernorm(x))
    return x + x, weights, cache


def input_again(block: Any, x: torch.Tensor, mask: Any = None, shown: bool = False) -> Any:
    """A post-norm block whose second residual is the block's input."""
    branch, weights = block.self_attn(x, mask, shown)
    return block.norm2(x + block.feed_forward(block.norm1(x + branch))), weights


def normed_first(layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """The norm before attention takes the stream's place; the one before the MLP does not."""
    x = layer.input_layernorm(x)
    attended, weights, cache = layer.merged_attn(x, *args, **kwargs)
    stream = x + attended
    return stream + layer.mlp(layer.post_attention_layernorm(stream)), weights, cache


def last_layer_unused(patch: Patch) -> None:
    """A stack of three layers or more ends one too early; what its last one gives is not read."""
    layers = patch.layers("encoder")
    assert len(layers) >= 3
    patch.wrap(layers[-1], "forward", lambda plain, x, *args, **kwargs: (x, plain(x, *args, **kwargs)[1]))


def decoder_layer(patch: Patch, forward: Any) -> None:
    patch.setattr(Qwen3DecoderLayer, "forward", forward)


_ENCODER = "encoder/ragged encdec/ragged"

ROWS = (
    row("F031", "every layer reads the embeddings", "simon-ging/coot-videotext#5", "residual", _ENCODER,
        all_read_embeddings, "input"),
    row("F032", "the stream that is handed on beside the MLP's output is overwritten unread in the next layer",
        "vllm-project/vllm#26164", "residual", "decoder/plain encdec/ragged",
        lambda patch: decoder_layer(patch, carried_residual_lost), "output"),
    row("F033", "attention's and the MLP's outputs are added to themselves instead of to their inputs",
        "facebookresearch/multimodal#305", "residual", "decoder/plain_two_rows encdec/ragged",
        lambda patch: decoder_layer(patch, branches_to_themselves), "attn_residual output"),
    row("F034", "the second residual of a post-norm block is the block's input", "JanSchm/CapMarket#8", "residual",
        "classic/post_norm classic/bert",
        lambda patch: patch.setattr(TransformerEncoderBlock, "forward", input_again), "ff_residual"),
    row("F035", "attention's residual is what its norm gives", "allenai/OLMo#680", "residual",
        "decoder/window_even encdec/ragged", lambda patch: decoder_layer(patch, normed_first), "attn_residual"),
    row("F036", "a stack of three layers or more gives the output of the layer before its last",
        "LukasHedegaard/continual-inference#70", "layers", _ENCODER, last_layer_unused, "output"),
)  # fmt: skip
