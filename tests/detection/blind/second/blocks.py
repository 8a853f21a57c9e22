"""Blocks of others: gates and activations, what residuals add, what the MLP reads, and how tokens are embedded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec.mlp import Qwen3MLP
from qwen3_encdec.modeling_qwen3_encoder import Qwen3EncoderLayer
from qwen3_encdec.transformer_encoder import TransformerEncoderBlock

Gate = Callable[[Callable[[torch.Tensor], torch.Tensor], torch.Tensor, torch.Tensor], torch.Tensor]
"""`gate(act, gate, up)`: what down_proj reads."""


def gated(gate: Gate) -> Seed:
    def forward(block: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = block.down_proj(gate(block.act_fn, block.gate_proj(x), block.up_proj(x)))
        return result

    return lambda patch: patch.setattr(Qwen3MLP, "forward", forward)


def tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    return functional.gelu(x, approximate="tanh")


def classic_tanh(patch: Patch) -> None:
    for layer in patch.model.layers:
        patch.setattr(layer.feed_forward, "activation", tanh_gelu)


def gelu_for_silu(patch: Patch) -> None:
    for layer in patch.layers("decoder"):
        patch.setattr(layer.mlp, "act_fn", functional.gelu)


def normed_stream(layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """`norm(x) + branch(norm(x))`, twice."""
    normed = layer.input_layernorm(x)
    attended, weights = layer.self_attn(normed, *args, **kwargs)
    normed = layer.post_attention_layernorm(normed + attended)
    return normed + layer.mlp(normed), weights


def sum_before_its_norm(block: Any, x: torch.Tensor, mask: Any = None, shown: bool = False) -> Any:
    """A post-norm block whose second residual is the sum that the first norm was made of."""
    branch, weights = block.self_attn(x, mask, shown)
    x = x + branch
    return block.norm2(x + block.feed_forward(block.norm1(x))), weights


def parallel(patch: Patch) -> None:
    """The norm before the MLP reads what the layer got; attention and MLP are added as they are to be."""
    inputs: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        inputs[:] = [x]
        return x

    for layer in patch.layers("decoder"):
        patch.on_input(layer, keep)
        patch.wrap(layer.post_attention_layernorm, "forward", lambda plain, _x: plain(inputs[0]))


def embedding_scale(change: Callable[[float], float]) -> Seed:
    return lambda patch: patch.setattr(patch.model, "scale", change(patch.model.scale))


def padding_row_zero(patch: Patch) -> None:
    def lookup(plain: Any, ids: torch.Tensor, padding: int) -> torch.Tensor:
        result: torch.Tensor = plain(ids) * (ids != padding)[..., None]
        return result

    padding = patch.model.config.pad_token_id
    for stack in (patch.model.encoder, patch.model.decoder):
        patch.wrap(stack.embed_tokens, "forward", lambda plain, ids: lookup(plain, ids, padding))


_STEPS = "decoder/ragged_decode decoder/plain"

ROWS = (
    row("D044", "the activation is on up instead of gate", "ml-explore/mlx-lm#767", "gate", _STEPS,
        gated(lambda act, gate, up: act(up) * gate), "mlp.act"),
    row("D045", "the activation is on the product of gate and up", "Nijikadesu/breakdown-minimind#3", "gate",
        "decoder/multiples_of_256 decoder/plain", gated(lambda act, gate, up: act(gate * up)), "mlp.act"),
    row("D046", "a gated activation is mapped to its plain one: up is left out", "google-research/timesfm#493",
        "gate", "encdec/ragged encdec/unpadded", gated(lambda act, gate, _up: act(gate)), "mlp.act"),
    row("D047", "gelu is taken for its tanh approximation", "huggingface/text-embeddings-inference#753",
        "activation", "classic/pre_norm classic/bert", classic_tanh, "feed_forward.act", levels="modules layer"),
    row("D048", "a default stays, GELU, where the model has SiLU",
        "intelligent-machine-learning/dlrover#1351", "activation", "decoder/head_dim_64 decoder/bfloat16",
        gelu_for_silu, "mlp.act"),
    row("D049", "residuals add the normed stream", "pytorch/pytorch#61165", "residual",
        "encoder/window_odd encoder/ragged", lambda patch: patch.setattr(Qwen3EncoderLayer, "forward", normed_stream),
        "attn_residual output"),
    row("D050", "a post-norm block's second residual is the sum before the norm", "NVIDIA-NeMo/Speech#4350",
        "residual", "classic/post_norm",
        lambda patch: patch.setattr(TransformerEncoderBlock, "forward", sum_before_its_norm), "ff_residual"),
    row("D051", "the MLP reads the layer's input beside attention, as if both were parallel",
        "deepspeedai/DeepSpeed#2446", "wiring", "decoder/window_even decoder/plain", parallel,
        "post_attention_layernorm"),
    row("D052", "embeddings are scaled by the root of their width twice", "TensorAuto/OpenTau#179", "embedding",
        "classic/pre_norm", embedding_scale(lambda scale: scale * scale), "pre_norm.embeddings",
        levels="modules layer"),
    row("D053", "embeddings are not scaled by the root of their width", "marin-community/levanter#978", "embedding",
        "classic/post_norm classic/pre_norm", embedding_scale(lambda _scale: 1.0),
        "post_norm.embeddings pre_norm.embeddings"),
    row("D054", "the padding id's embedding is 0 whatever its row holds", "PaddlePaddle/Paddle#62301", "embedding",
        "encdec/unpadded", padding_row_zero, "encoder.embed_tokens decoder.embed_tokens"),
)  # fmt: skip
