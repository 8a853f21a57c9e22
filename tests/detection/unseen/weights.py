"""Weights as converters, adapters, shards and quantisers leave them."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.layers import PARAMETERS
from detection.mutants.mask_seeds import both
from detection.mutants.mutant import Seed, attention
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import LINEAR, MLP, NORMS, taken, weight_of
from detection.mutants.weight_seeds import weights as of_stack
from detection.unseen.row import row

_QKV = attention("q_proj k_proj v_proj encoder_k_proj encoder_v_proj")
_RAGGED = "encdec/ragged"


def _weights(change: Any, *names: str) -> Seed:
    """`change(weight, layer)` in both stacks."""
    return both(*(of_stack(change, *names, stack=stack) for stack in ("encoder", "decoder")))


def _interleaved(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    return weight.reshape(2, -1).T.flatten()


def _groups_first(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    return weight.reshape(len(weight), 2, 3, -1).transpose(1, 2).flatten(1)


def _folded(patch: Patch) -> None:
    for stack in ("encoder", "decoder"):
        for layer in range(len(patch.layers(stack))):
            norm = weight_of(patch, stack, layer, "input_layernorm").detach()
            for name in ("q_proj", "k_proj", "v_proj"):
                weight = weight_of(patch, stack, layer, name)
                patch.change(weight, weight.detach() * norm)


def _scales_on_columns(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    scales = weight.abs().amax(1) / 127
    return (weight / scales[:, None]).round() * scales


def _four_bits(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    blocks = weight.reshape(len(weight), -1, 8)
    low, high = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
    step = (high - low) / 15
    return (((blocks - low) / step).round() * step + low).reshape(weight.shape)


def _act_order(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    return weight[:, weight.norm(dim=0).argsort(descending=True, stable=True)]


def _adapter(weight: torch.Tensor, layer: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(layer)
    up, down = (torch.randn(n, 2, generator=draw) * 0.15 for n in weight.shape)
    return weight + up @ down.T


def _fused(patch: Patch) -> None:
    for layer in patch.layers():
        gate, up = layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight
        rows = torch.cat((gate, up)).detach().clone()
        patch.change(gate, rows[::2])
        patch.change(up, rows[1::2])


ROWS = (
    row("A2", "k_norm's weight is stored in interleaved channel order", _weights(_interleaved, "k_norm"),
        attention("k_norm encoder_k_norm"), ["weight.permuted", "structure.*permuted"], _RAGGED,
        "modules layer logits"),
    row("X9", "o_proj is converted with heads as (group, KV head), not (KV head, group)", _weights(_groups_first,
        "o_proj"),
        attention("o_proj"), ["weight.heads_shuffled", "context.head_order", "weight.permuted",
        "structure.columns_permuted"],
        _RAGGED, "layer"),
    row("X18", "a norm's weight is folded into q, k and v, and applied by the norm as well", _folded, _QKV,
        ["norm.weight_twice", "structure.*: norm|fold", "*: folded"], _RAGGED, "layer"),
    row("X19", "int8 q_proj, square: the scales of the rows are applied to the columns",
        _weights(_scales_on_columns, "q_proj"), attention("q_proj"),
        ["structure.*scale*", "*: scales? .*columns|(wrong|other) axis"], "encdec/qwen2", "modules"),
    row("F2", "v_proj in 4 bits, blocks of 8 with a minimum", _weights(_four_bits, "v_proj"),
        attention("v_proj encoder_v_proj"), ["structure.blocks", "*: 4 bits|q4"], _RAGGED, "modules"),
    row("F3", "GPTQ act-order: the input permutation of o_proj is not applied", _weights(_act_order, "o_proj"),
        attention("o_proj"), ["structure.columns_permuted", "weight.permuted: column|input"], _RAGGED, "layer"),
    row("F6", "a LoRA adapter of rank 2 stays merged in q_proj", _weights(_adapter, "q_proj"), attention("q_proj"),
        ["structure.low_rank", "*: rank 2|rank of 2|low rank"], _RAGGED, "logits"),
    row("F9", "a pipeline stage starts one layer too early: decoder layer 2 is layer 1 again",
        taken(lambda stack, name, layer, _: (stack, name, 1) if layer == 2 else None, *LINEAR, *MLP, *NORMS, "q_norm",
              "k_norm"), PARAMETERS, ["weight.other_tensor"], _RAGGED, "modules"),
    row("D1", "a fused gate_up is loaded as [gate; up] and split interleaved", _fused, "mlp.gate_proj mlp.up_proj",
        ["weight.fused_layout", "structure.rows_permuted"], _RAGGED, "modules"),
)  # fmt: skip
