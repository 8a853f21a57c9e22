"""Matrix products in other orders: fused, transposed, row by row, in blocks, wider sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn

from detection.honest.ours import Patch, ours
from detection.honest.variation import Variation, float32_alone
from qwen3_parity.recording.ours.network import EncoderDecoder

Tensor = torch.Tensor
_BLOCK = 8
"""Elements of the summed axis that a split sum takes at a time."""


def _biased(product: Tensor, module: nn.Linear) -> Tensor:
    return product if module.bias is None else product + module.bias


def _einsum(module: nn.Linear, x: Tensor) -> Tensor:
    return _biased(torch.einsum("...i,oi->...o", x, module.weight), module)


def _batched(module: nn.Linear, x: Tensor) -> Tensor:
    weight = module.weight.T.expand(len(x), -1, -1)
    return _biased(torch.bmm(x, weight), module)


def _transposed(module: nn.Linear, x: Tensor) -> Tensor:
    return _biased(x @ module.weight.T.contiguous(), module)


def _weight_first(module: nn.Linear, x: Tensor) -> Tensor:
    rows = (module.weight @ x.flatten(0, 1).T).T
    return _biased(rows.reshape(*x.shape[:-1], -1), module)


def _row_by_row(module: nn.Linear, x: Tensor) -> Tensor:
    rows = [torch.mv(module.weight, row) for row in x.flatten(0, 1)]
    return _biased(torch.stack(rows).view(*x.shape[:-1], -1), module) if rows else x.new_zeros(_outside(module, x))


def _outside(module: nn.Linear, x: Tensor) -> tuple[int, ...]:
    return (*x.shape[:-1], module.out_features)


def _in_blocks(module: nn.Linear, x: Tensor) -> Tensor:
    parts = zip(torch.split(x, _BLOCK, -1), torch.split(module.weight, _BLOCK, 1), strict=True)
    total = x.new_zeros(_outside(module, x))
    for block, weight in parts:
        total = total + block @ weight.T
    return _biased(total, module)


def _backwards(module: nn.Linear, x: Tensor) -> Tensor:
    return _biased(x.flip(-1) @ module.weight.flip(-1).T, module)


def _wide(module: nn.Linear, x: Tensor) -> Tensor:
    bias = None if module.bias is None else module.bias.double()
    return nn.functional.linear(x.double(), module.weight.double(), bias).to(x.dtype)


def _bias_first(module: nn.Linear, x: Tensor) -> Tensor:
    """A bias of zeros where there is none, and the product added to it."""
    bias = x.new_zeros(module.out_features) if module.bias is None else module.bias
    return torch.addmm(bias, x.flatten(0, 1), module.weight.T).view(_outside(module, x))


def _every(forward: Callable[[Any, Tensor], Tensor]) -> Callable[[EncoderDecoder], Iterable[Patch]]:
    return lambda _runner: ((nn.Linear, "forward", forward),)


def _fused(groups: Callable[[Any], Iterable[Sequence[nn.Linear]]]) -> Callable[[EncoderDecoder], Iterable[Patch]]:
    """One product for the modules of a group, which then take their parts of it."""

    def change(runner: EncoderDecoder) -> Iterable[Patch]:
        layers = [*runner.model.encoder.layers, *runner.model.decoder.layers]
        for group in (group for layer in layers for group in groups(layer)):
            weight = torch.cat([module.weight for module in group])
            bias = None if group[0].bias is None else torch.cat([module.bias for module in group])
            start = 0
            for module in group:
                part = slice(start, start + module.out_features)
                start = part.stop

                def forward(x: Tensor, weight: Tensor = weight, bias: Any = bias, part: slice = part) -> Tensor:
                    return nn.functional.linear(x, weight, bias)[..., part]

                yield module, "forward", forward

    return change


def _qkv(layer: Any) -> Iterable[Sequence[nn.Linear]]:
    attention = getattr(layer, "self_attn", None) or layer.merged_attn
    return ((attention.q_proj, attention.k_proj, attention.v_proj),)


def _gate_up(layer: Any) -> Iterable[Sequence[nn.Linear]]:
    return ((layer.mlp.gate_proj, layer.mlp.up_proj),)


VARIATIONS = (
    Variation("fused_qkv", "one product for queries, keys and values", ours(_fused(_qkv))),
    Variation("fused_gate_up", "one product for gate and up", ours(_fused(_gate_up))),
    Variation("linear_einsum", "projections as einsum", ours(_every(_einsum))),
    Variation("linear_batched", "projections as a batched product", ours(_every(_batched))),
    Variation("linear_transposed", "weights stored [in, out]", ours(_every(_transposed))),
    Variation("linear_weight_first", "weight times columns", ours(_every(_weight_first))),
    Variation("linear_row_by_row", "one matrix-vector product for each row", ours(_every(_row_by_row))),
    Variation("linear_in_blocks", "sums of blocks of 8 products", ours(_every(_in_blocks)), float32_alone),
    Variation("linear_backwards", "the summed axis backwards", ours(_every(_backwards))),
    Variation("linear_float64", "products summed in float64 and rounded once", ours(_every(_wide))),
    Variation("linear_bias_first", "a bias of zeros where there is none", ours(_every(_bias_first))),
)
