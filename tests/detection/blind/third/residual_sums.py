"""Residuals of others: what a branch is added to, or multiplied by, and on which side of a norm."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from qwen3_encdec.decoder_layer import Qwen3DecoderLayer
from qwen3_encdec.modeling_qwen3_encoder import Qwen3EncoderLayer
from qwen3_encdec.transformer_encoder import TransformerEncoderBlock


def branch_twice(layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """What attention gives has taken the name of its input, and is added to itself."""
    x, weights = layer.self_attn(layer.input_layernorm(x), *args, **kwargs)
    x = x + x
    return x + layer.mlp(layer.post_attention_layernorm(x)), weights


def to_the_input(layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """The second residual is the first one's: attention's output is in the MLP's input alone."""
    attended, weights, cache = layer.merged_attn(layer.input_layernorm(x), *args, **kwargs)
    return x + layer.mlp(layer.post_attention_layernorm(x + attended)), weights, cache


def without_the_stream(layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    attended, weights, cache = layer.merged_attn(layer.input_layernorm(x), *args, **kwargs)
    return attended + layer.mlp(layer.post_attention_layernorm(attended)), weights, cache


def product(layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    attended, weights, cache = layer.merged_attn(layer.input_layernorm(x), *args, **kwargs)
    stream = x + attended
    return stream * layer.mlp(layer.post_attention_layernorm(stream)), weights, cache


def normed_branches(block: Any, x: torch.Tensor, mask: Any = None, shown: bool = False) -> Any:
    """A post-norm block that norms its branches instead of the sums."""
    branch, weights = block.self_attn(x, mask, shown)
    x = block.norm1(branch) + x
    return block.norm2(block.feed_forward(x)) + x, weights


def normed_residual(block: Any, x: torch.Tensor, mask: Any = None, shown: bool = False) -> Any:
    """A pre-norm block whose second residual is what the second norm gives."""
    branch, weights = block.self_attn(block.norm1(x), mask, shown)
    x = block.norm2(x + branch)
    return x + block.feed_forward(x), weights


def decoder_layer(patch: Patch, forward: Any) -> None:
    patch.setattr(Qwen3DecoderLayer, "forward", forward)


ROWS = (
    row("E030", "attention's output is added to itself instead of to its input", "kyegomez/BitNet#32", "residual",
        "encoder/ragged encdec/unpadded", lambda patch: patch.setattr(Qwen3EncoderLayer, "forward", branch_twice),
        "attn_residual"),
    row("E031", "the MLP is added to the layer's input: attention's output is lost to the stream",
        "strutive07/transformer-tensorflow2.0#14", "residual", "decoder/window_chunks decoder/plain",
        lambda patch: decoder_layer(patch, to_the_input), "output"),
    row("E032", "a post-norm block norms the branches and not the sums", "mashrurmorshed/Torch-KWT#13", "residual",
        "classic/post_norm", lambda patch: patch.setattr(TransformerEncoderBlock, "forward", normed_branches),
        "attn_residual feed_forward.linear1 ff_residual output"),
    row("E033", "a pre-norm block adds the MLP to what its norm gives", "SHI-Labs/Compact-Transformers#25",
        "residual", "classic/pre_norm",
        lambda patch: patch.setattr(TransformerEncoderBlock, "forward", normed_residual), "output",
        levels="modules layer"),
    row("E034", "attention has no residual", "lucidrains/audiolm-pytorch#150", "residual",
        "encdec/ragged decoder/plain", lambda patch: decoder_layer(patch, without_the_stream), "attn_residual"),
    row("E035", "the stream is multiplied by the MLP's output instead of added to it", "ChristophReich1996/MaxViT#8",
        "residual", "decoder/head_dim_64 decoder/plain", lambda patch: decoder_layer(patch, product), "output"),
)  # fmt: skip
