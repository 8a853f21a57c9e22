"""Feed-forward blocks of others: another activation, twice, none, or a quick one that ends too early."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from detection.blind.row import row
from detection.blind.second.blocks import gated
from detection.mutants.patch import Patch

_CUBIC = 0.1834


def quick_silu(_act: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The sigmoid is half of 1 and a cubic that stands for tanh(x / 2), cut off at -1 and 1."""
    half = gate / 2
    tanh = (half * (1 + _CUBIC * half * half)).clamp(-1, 1)
    return gate * (0.5 + 0.5 * tanh) * up


def silu_for_gelu(patch: Patch) -> None:
    for layer in patch.model.layers:
        patch.setattr(layer.feed_forward, "activation", functional.silu)


_STEPS = "decoder/ragged_decode encdec/ragged"

ROWS = (
    row("E025", "the sigmoid of SiLU is a cubic that reaches 0 and 1 too early", "1bit-MONSTER/1bit-MONSTER#1350",
        "activation", "decoder/multiples_of_256 decoder/plain", gated(quick_silu), "mlp.act"),
    row("E026", "the activation is ReLU instead of SiLU", "fkodom/yet-another-retnet#7", "activation",
        "encdec/unpadded decoder/plain", gated(lambda _act, gate, up: functional.relu(gate) * up), "mlp.act"),
    row("E027", "SiLU is applied by a workaround and by the product that fuses it", "tenstorrent/tt-metal#39638",
        "activation", "decoder/window_even decoder/plain", gated(lambda act, gate, up: act(act(gate)) * up),
        "mlp.act"),
    row("E028", "the MLP has no activation", "YujiaBao/ls#1", "activation", _STEPS,
        gated(lambda _act, gate, up: gate * up), "mlp.act"),
    row("E029", "SiLU stands in the code where the config says GELU", "huggingface/candle#3745", "activation",
        "classic/bert classic/pre_norm", silu_for_gelu, "feed_forward.act"),
)  # fmt: skip
