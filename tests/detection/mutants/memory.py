"""Seeded bugs: what the encoder's keys and values are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.entry import entry
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec.merged_attention import Qwen3MergedAttention
from qwen3_encdec.modeling_qwen3_encoder import Qwen3Encoder

_PROJECTIONS = ("merged_attn.encoder_k_proj", "merged_attn.encoder_v_proj")
_CASES = ("encdec/ragged", "encdec/window", "encdec/unrotated")


def _memory(change: Callable[[Any, torch.Tensor], torch.Tensor]) -> Seed:
    """The states that the encoder's keys and values are made of go through `change(attention, states)`."""

    def around(plain: Any, module: Any, states: torch.Tensor, tables: Any) -> Any:
        return plain(module, change(module, states), tables)

    return lambda patch: patch.wrap(Qwen3MergedAttention, "encoder_keys_values", around)


def _before_the_final_norm(patch: Patch) -> None:
    kept: list[torch.Tensor] = []

    def normed(plain: Any, states: torch.Tensor) -> Any:
        kept[:] = [states]
        return plain(states)

    def encode(plain: Any, stack: Any, *args: Any, **kwargs: Any) -> Any:
        found = plain(stack, *args, **kwargs)
        found.last_hidden_state = kept[0]
        return found

    patch.wrap(patch.model.encoder, "norm", normed)
    patch.wrap(Qwen3Encoder, "forward", encode)


def _normed_again(patch: Patch) -> None:
    norms = {layer.merged_attn.layer_idx: layer.input_layernorm for layer in patch.layers("decoder")}
    _memory(lambda module, states: norms[module.layer_idx].forward(states))(patch)  # no call: it is no tap


def _projected_by(other: Callable[[Any, str], torch.Tensor]) -> Seed:
    """The encoder's keys and values are made by weights of their own: `other(attention, "k_proj" or "v_proj")`."""

    def around(plain: Any, module: Any, states: torch.Tensor, tables: Any) -> Any:
        own = {name: getattr(module, name).weight for name in ("k_proj", "v_proj")}
        before = {name: weight.data for name, weight in own.items()}
        for name, data in {name: other(module, name) for name in own}.items():
            own[name].data = data
        try:
            return plain(module, states, tables)
        finally:
            for name, weight in own.items():
                weight.data = before[name]

    return lambda patch: patch.wrap(Qwen3MergedAttention, "encoder_keys_values", around)


def _random(module: Any, name: str) -> torch.Tensor:
    shape = getattr(module, name).weight.shape
    return torch.randn(shape, generator=torch.Generator().manual_seed(module.layer_idx)) * 0.2


def _of_the_encoder(patch: Patch) -> None:
    theirs = [layer.self_attn for layer in patch.layers("encoder")]
    _projected_by(lambda module, name: getattr(theirs[module.layer_idx], name).weight.data)(patch)


MEMORY = (
    entry("MRG-04", "the encoder's states are taken before its final norm", _before_the_final_norm, _PROJECTIONS,
        "wiring.other_input", _CASES),
    entry("MRG-04/again", "the decoder's input_layernorm is applied to the encoder's states", _normed_again,
        _PROJECTIONS, "wiring.extra_norm", _CASES),
    entry("MRG-17", "merged attention has projections of its own for the encoder, which no checkpoint fills",
        _projected_by(_random), _PROJECTIONS, "weight.unknown", _CASES),
    entry("own/memory-projections-of-encoder", "the encoder's keys and values come from the encoder's own projections",
        _of_the_encoder, _PROJECTIONS, "weight.other_tensor", _CASES),
    entry("own/memory-scaled", "the encoder's states are scaled", _memory(lambda _, states: states * 1.01),
        _PROJECTIONS, "fit.factor", _CASES),
    entry("own/memory-states-row", "rows have each other's source", _memory(lambda _, states: states.roll(1, 0)),
        _PROJECTIONS, "wiring.other_row fit.shift", _CASES),
    entry("own/memory-states-late", "the encoder's states are one slot late",
        _memory(lambda _, states: states.roll(1, 1)), _PROJECTIONS, "fit.shift", _CASES),
    entry("own/memory-projections-exchanged", "v_proj makes the encoder's keys, k_proj its values",
        _projected_by(lambda module, name: getattr(module, {"k_proj": "v_proj", "v_proj": "k_proj"}[name]).weight.data),
        _PROJECTIONS, "weight.other_tensor", _CASES),
)  # fmt: skip
