"""Shards of others that are cut or joined at the wrong places, and what stages of a pipeline hand on."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.first.parallel import output
from detection.blind.row import row
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import rows, taps
from qwen3_encdec.decoder_layer import Qwen3DecoderLayer

Weights = dict[str, torch.Tensor]


def halves_of_fused(weights: Weights) -> Weights:
    """Two ranks cut `[gate ; up]` in the middle, and each takes the first half of its part for gate."""
    gate, up = (weights[f"mlp.{name}_proj"].chunk(2) for name in ("gate", "up"))
    return {
        "mlp.gate_proj": torch.cat((gate[0], up[0])),
        "mlp.up_proj": torch.cat((gate[1], up[1])),
    }


def rank_by_rank(weights: Weights) -> Weights:
    """Two ranks' outputs are joined to `[q0 k0 v0 | q1 k1 v1]` and cut as `[q | k | v]`."""
    parts = [weight.chunk(2) for weight in weights.values()]
    joined = torch.cat([part[rank] for rank in (0, 1) for part in parts])
    sizes = [len(weight) for weight in weights.values()]
    return dict(zip(weights, torch.split(joined, sizes), strict=True))


def scattered_residual(patch: Patch) -> None:
    """Two ranks hold a half of the tokens' residual each; each sends its length quarter as if both held the same."""
    streams: list[torch.Tensor] = []

    def keep(plain: Any, x: torch.Tensor) -> Any:
        streams[:] = [x]
        return plain(x)

    def sent(_x: torch.Tensor, stream: torch.Tensor) -> torch.Tensor:
        residual = streams[0].flatten(0, 1)
        if len(residual) % 4:
            return stream
        quarter = len(residual) // 4
        gathered = torch.cat((residual[:quarter], residual[-quarter:]))
        return stream - streams[0] + torch.cat((gathered, gathered)).view(stream.shape)

    patch.wrap(patch.layers("decoder")[0].post_attention_layernorm, "forward", keep)
    output(sent, 0)(patch)


def raw_mask_behind_first(patch: Patch) -> None:
    """Layers of the second stage add the tokenizer's 1 and 0 where those of the first add 0 and -inf."""
    depth = len(patch.layers("decoder"))

    def forward(plain: Any, layer: Any, x: torch.Tensor, memory: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        mask = kwargs["mask"]
        if layer.merged_attn.layer_idx >= depth // 2:
            length = mask.shape[3] - memory.shape[1]
            later = torch.ones(mask.shape[2], length, dtype=torch.bool).triu(length - mask.shape[2] + 1)
            causal = torch.nn.functional.pad(~later, (0, memory.shape[1]), value=True)
            kwargs["mask"] = torch.where(causal, (mask == 0).to(mask.dtype), mask)
        return plain(layer, x, memory, *args, **kwargs)

    patch.wrap(Qwen3DecoderLayer, "forward", forward)


_MERGED = "encdec/ragged decoder/ragged_decode"

ROWS = (
    row("D116", "the fused gate and up are cut in the middle for two ranks, which each take a half for gate",
        "xLLM-AI/xllm#1616", "tensor parallel", _MERGED, rows(halves_of_fused, "mlp.gate_proj", "mlp.up_proj"),
        "mlp.gate_proj mlp.up_proj"),
    row("D117", "the ranks' fused q, k, v are joined rank by rank and cut as q, then k, then v",
        "ndif-team/nnsight#719", "tensor parallel", "decoder/head_dim_64 encdec/ragged",
        rows(rank_by_rank, "q_proj", "k_proj", "v_proj"), taps("q_proj", "k_proj", "v_proj")),
    row("D118", "between stages ranks send slices of a residual that is not the same on them: tokens get others'",
        "vllm-project/vllm#24021", "pipeline parallel", "encdec/ragged long/last_rows", scattered_residual, "output"),
    row("D119", "stages behind the first add the padding mask as it comes, 1 and 0", "hpcaitech/ColossalAI#430",
        "pipeline parallel", "decoder/ragged_decode encdec/ragged", raw_mask_behind_first, "merged_attn.mask",
        also="merged_attn.probs"),
)  # fmt: skip
