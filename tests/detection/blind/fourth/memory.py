"""Memory of others: results written over what is still needed, a race between heads, a tile of the wrong buffer."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.blind.second.losses import mean, replaced
from detection.mutants.patch import Patch
from qwen3_encdec import rope
from qwen3_encdec.decoder_layer import Qwen3DecoderLayer
from qwen3_encdec.merged_attention import Qwen3MergedAttention

_TILE = 8
"""Inputs of a tile."""


def softmax_in_place(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The largest logit is taken off, exponentials are taken and divided, all where the logits lie."""
    value = mean(logits, labels)
    logits.data.copy_(logits.detach().softmax(-1))
    return value


def next_head(plain: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Threads of the second half of a head's channels read the next head's numbers, which came to the same place."""
    result: torch.Tensor = plain(x, cos, sin).clone()
    half = x.shape[-1] // 2
    result[:, :-1, :, half:] = result[:, 1:, :, half:].clone()
    return result


def residual_for_sum(patch: Patch) -> None:
    """The residual is loaded to where attention's output lies, and added to itself."""
    streams: list[torch.Tensor] = []

    def layer(plain: Any, module: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        streams[:] = [x]
        return plain(module, x, *args, **kwargs)

    def attention(plain: Any, *args: Any, **kwargs: Any) -> Any:
        _, *rest = plain(*args, **kwargs)
        return (streams[0], *rest)

    patch.wrap(Qwen3DecoderLayer, "forward", layer)
    patch.wrap(Qwen3MergedAttention, "forward", attention)


def tile_of_other_buffer(patch: Patch) -> None:
    """Of an odd number of tiles the last one is in buffer 0, and the tail reads buffer 1: the tile before."""

    def forward(plain: Any, x: torch.Tensor, weight: torch.Tensor) -> Any:
        tiles = list(zip(torch.split(x, _TILE, dim=-1), torch.split(weight, _TILE, dim=1), strict=True))
        if len(tiles) % 2 == 0:
            return plain(x)
        (before, its_weight), (last, last_weight) = tiles[-2:]
        return plain(x) - last @ last_weight.T + before @ its_weight.T

    for layer in patch.layers("decoder"):
        for module in (layer.mlp.gate_proj, layer.mlp.up_proj):
            patch.wrap(module, "forward", lambda plain, x, module=module: forward(plain, x, module.weight))


_STEPS = "decoder/ragged_decode encdec/ragged"

ROWS = (
    row("F095", "the cross-entropy works where the logits lie: they are probabilities behind it",
        "NVIDIA/Megatron-LM#1594", "in place", "training/tied training/causal", replaced(softmax_in_place), "logits",
        also="loss gradient.logits"),
    row("F096", "half of a head's channels are rotated from the next head's numbers", "prs-eth/LitePT#12", "race",
        "encdec/ragged decoder/plain_two_rows", lambda patch: patch.function(rope.apply_rotary, next_head),
        "merged_attn.q_rope merged_attn.k_rope merged_attn.encoder_k_rope self_attn.q_rope self_attn.k_rope"),
    row("F097", "attention's output is overwritten by the residual that is added to it", "hw-native-sys/pypto#768",
        "memory reuse", _STEPS, residual_for_sum, "attn_residual"),
    row("F098", "the last tile of a product is read from the buffer of the tile before", "xlite-dev/LeetCUDA#514",
        "stale tile", _STEPS, tile_of_other_buffer, "mlp.gate_proj mlp.up_proj"),
)  # fmt: skip
