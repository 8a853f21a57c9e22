"""Weights of others as they come out of converters and of few bits: permutations, codes, zero points, scales."""

from __future__ import annotations

from collections.abc import Callable

import torch

from detection.blind.row import row
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import meta_layout, noise, taps, weight_of, weights

_BLOCK = 8
Blocks = Callable[[torch.Tensor], torch.Tensor]
"""What becomes of a weight's inputs in blocks `[out, blocks, 8]`."""


def blocks(change: Blocks) -> Callable[[torch.Tensor, int], torch.Tensor]:
    return lambda weight, _layer: change(torch.unflatten(weight, 1, (-1, _BLOCK))).flatten(1)


def k_by_all_heads(patch: Patch) -> None:
    """k's rows are put in GGUF's order by KV heads, and back by query heads, which are narrower."""
    config = patch.model.config
    width = config.kv_heads * config.head_dim // config.num_attention_heads
    weights(lambda w, _: _back(meta_layout(w, config.head_dim), width), "k_proj")(patch)


def _back(weight: torch.Tensor, head_dim: int) -> torch.Tensor:
    return torch.unflatten(weight, 0, (-1, head_dim // 2, 2)).transpose(1, 2).flatten(0, 2)


def scales_in_other_order(patch: Patch) -> None:
    """q's and k's codes are in the right order of rows, their block scales in that of the other kind of RoPE."""
    dim = patch.model.config.head_dim

    def change(weight: torch.Tensor, _layer: int) -> torch.Tensor:
        parts = torch.unflatten(weight, 1, (-1, _BLOCK))
        scale = parts.abs().amax(-1)
        return (parts / scale[..., None] * meta_layout(scale, dim)[..., None]).flatten(1)

    weights(change, "q_proj", "k_proj")(patch)


def by_turns(parts: torch.Tensor) -> torch.Tensor:
    return torch.unflatten(parts, -1, (2, -1)).transpose(-1, -2).flatten(-2)


def twos_complement(parts: torch.Tensor) -> torch.Tensor:
    scale = parts.abs().amax(-1, keepdim=True) / 7
    codes = (parts / scale).round().clamp(-8, 7)
    return torch.where(codes < 0, codes + 8, codes - 8) * scale


def zero_off_by_one(parts: torch.Tensor) -> torch.Tensor:
    low, high = parts.amin(-1, keepdim=True), parts.amax(-1, keepdim=True)
    scale = (high - low) / 15
    zero = (-low / scale).round()
    codes = (parts / scale + zero).round().clamp(0, 15)
    return (codes - (zero + 1)) * scale


def unscaled(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    return (weight / (weight.abs().max() / 448)).to(torch.float8_e4m3fn).float()


def scale_of_gate(patch: Patch) -> None:
    for layer in range(len(patch.layers("decoder"))):
        gate, up = (weight_of(patch, "decoder", layer, f"mlp.{name}") for name in ("gate_proj", "up_proj"))
        patch.change(up, up.detach() * (gate.abs().max() / up.abs().max()).item())


def adapter_left(weight: torch.Tensor, layer: int) -> torch.Tensor:
    down, up = noise(weight[:2], layer) * 0.1, noise(weight[:, :2], layer + 9) * 0.1
    return weight + 16 * up @ down


def biases_not_permuted(patch: Patch) -> None:
    """Weights and rotation stand in halves, the biases of q and k in neighbouring pairs."""
    for attention in patch.attentions("decoder"):
        for projection in (attention.q_proj, attention.k_proj):
            bias = projection.bias.detach().clone()
            patch.change(projection.bias, meta_layout(bias[:, None], attention.head_dim)[:, 0])


def scale_in_bfloat16(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    scale = weight.abs().amax(-1, keepdim=True) / 127
    return (weight / scale).round() * scale.bfloat16().float()


def inputs(change: Callable[[torch.Tensor], torch.Tensor], *names: str) -> Seed:
    """Linear layers of the decoder's MLPs read `change(x)`, within the layer."""

    def seed(patch: Patch) -> None:
        for layer in patch.layers("decoder"):
            for name in names:
                patch.wrap(getattr(layer.mlp, name), "forward", lambda plain, x: plain(change(x)))

    return seed


def eight_bits(x: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    scale = largest.clamp(min=1e-12) / 127
    return (x / scale).round() * scale


def scale_of_first_rank(x: torch.Tensor) -> torch.Tensor:
    largest = x.abs().amax((1, 2), keepdim=True)
    return x * (largest[:1] / largest.clamp(min=1e-12))


_ROWS = "decoder/ragged_decode encdec/ragged"

ROWS = (
    row("B070", "k_proj is put back in order by the number of query heads", "huggingface/transformers#31788",
        "converter", "decoder/multiples_of_256", k_by_all_heads, "merged_attn.k_proj"),
    row("B071", "q's and k's block scales were not permuted with their codes", "ggml-org/llama.cpp#22611",
        "converter", _ROWS, scales_in_other_order, taps("q_proj", "k_proj")),
    row("B072", "the nibbles of a block are unpacked by turns instead of in halves", "kekzl/imp#722",
        "quantised weights", _ROWS, weights(blocks(by_turns), "mlp.gate_proj"), "mlp.gate_proj"),
    row("B073", "4-bit codes are stored in two's complement and read with an excess of 8",
        "1bit-MONSTER/1bit-MONSTER#572", "quantised weights", _ROWS,
        weights(blocks(twos_complement), "mlp.gate_proj"), "mlp.gate_proj"),
    row("B074", "the zero points of 4-bit groups are one too large", "vllm-project/vllm#55262", "quantised weights",
        _ROWS, weights(blocks(zero_off_by_one), "mlp.gate_proj"), "mlp.gate_proj"),
    row("B075", "8-bit float weights are never multiplied by their scale", "leejet/stable-diffusion.cpp#1898",
        "quantised weights", _ROWS, weights(unscaled, "mlp.up_proj"), "mlp.up_proj"),
    row("B076", "up_proj is scaled by gate_proj's scale", "HabanaAI/vllm-hpu-extension#342", "quantised weights",
        _ROWS, scale_of_gate, "mlp.up_proj"),
    row("B077", "an adapter is merged by alpha instead of alpha / rank", "Blaizzy/mlx-vlm#841", "adapter", _ROWS,
        weights(adapter_left, "q_proj", "v_proj"), taps("q_proj", "v_proj")),
    row("B078", "the biases of q and k are left in the order of the other kind of RoPE", "ooples/AiDotNet#2074",
        "converter", "encdec/qwen2", biases_not_permuted, taps("q_proj", "k_proj")),
    row("B079", "8-bit weights have scales in bfloat16", "pytorch/ao#4326", "quantised weights", _ROWS,
        weights(scale_in_bfloat16, "o_proj"), "merged_attn.o_proj"),
    row("B080", "activations are rounded to 8 bits by a scale over the batch, a channel and token at a time",
        "vllm-project/compressed-tensors#394", "quantised activations", _ROWS,
        inputs(lambda x: eight_bits(x, x.abs().amax(0, keepdim=True)), "down_proj"), "mlp.down_proj"),
    row("B081", "rows that ranks rounded by scales of their own are all read by the first one's",
        "vllm-project/vllm#54683", "quantised activations", _ROWS, inputs(scale_of_first_rank, "down_proj"),
        "mlp.down_proj"),
    row("B082", "dynamic 8-bit activations have one scale for the whole tensor", "pytorch/executorch#22431",
        "quantised activations", _ROWS, inputs(lambda x: eight_bits(x, x.abs().max()), "gate_proj", "up_proj"),
        "mlp.gate_proj mlp.up_proj"),
)  # fmt: skip
