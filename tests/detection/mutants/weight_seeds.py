"""How a parameter gets other values than the checkpoint's."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch

from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch

Weights = Callable[[torch.Tensor, int], torch.Tensor]
"""`weights(before, layer)`: the values instead, in the same shape."""

LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
NORMS = ("input_layernorm", "post_attention_layernorm")


def path(stack: str, name: str) -> str:
    """A module's path in a layer: attention's own parts get their attention in front."""
    if name in NORMS or name.startswith("mlp."):
        return name
    return f"{'self_attn' if stack == 'encoder' else 'merged_attn'}.{name}"


def taps(*names: str, stack: str = "decoder") -> tuple[str, ...]:
    """The taps that a layer's modules make, the encoder's half of keys and values included."""
    paths = [path(stack, name) for name in names]
    twice = [f"merged_attn.encoder_{name}" for name in names if name in ("k_proj", "v_proj", "k_norm")]
    return (*paths, *(twice if stack == "decoder" else ()))


def everywhere(*names: str) -> tuple[str, ...]:
    """The taps that modules make in both stacks."""
    return (*taps(*names), *taps(*names, stack="encoder"))


def weight_of(patch: Patch, stack: str, layer: int, name: str) -> torch.Tensor:
    """The weight of a module of a layer."""
    weight: torch.Tensor = attrgetter(path(stack, name))(patch.layers(stack)[layer]).weight
    return weight


def weights(change: Weights, *names: str, stack: str = "decoder", layers: slice = slice(None)) -> Seed:
    """The weights of `names` in `layers` go through `change`."""

    def seed(patch: Patch) -> None:
        for layer in range(len(patch.layers(stack)))[layers]:
            for name in names:
                weight = weight_of(patch, stack, layer, name)
                patch.change(weight, change(weight.detach().clone(), layer).reshape(weight.shape))

    return seed


def taken(
    source: Callable[[str, str, int, int], tuple[str, str, int] | None], *names: str, stack: str = "decoder"
) -> Seed:
    """Weights are other tensors of the checkpoint: `source(stack, name, layer, depth)` says which; None: its own."""

    def seed(patch: Patch) -> None:
        depth = len(patch.layers(stack))
        sources = {(layer, name): source(stack, name, layer, depth) for layer in range(depth) for name in names}
        copies = {
            at: weight_of(patch, where[0], where[2], where[1]).detach().clone()
            for at, where in sources.items()
            if where is not None
        }
        for (layer, name), values in copies.items():
            patch.change(weight_of(patch, stack, layer, name), values)

    return seed


def rows(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]], *names: str) -> Seed:
    """The weights of a decoder layer's modules are made together: `change({name: weight})` gives the new ones."""

    def seed(patch: Patch) -> None:
        for layer in range(len(patch.layers("decoder"))):
            parameters = {name: weight_of(patch, "decoder", layer, name) for name in names}
            for name, values in change({name: weight.detach().clone() for name, weight in parameters.items()}).items():
                patch.change(parameters[name], values)

    return seed


def noise(weight: torch.Tensor, layer: int) -> torch.Tensor:
    """What a parameter holds that no checkpoint filled."""
    return torch.randn(weight.shape, generator=torch.Generator().manual_seed(layer)) * 0.2


def meta_layout(weight: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Rows of q or k for neighbouring pairs `(2i, 2i + 1)`, where ours are for halves `(i, i + head_dim / 2)`."""
    heads = weight.shape[0] // head_dim
    return weight.reshape(heads, 2, head_dim // 2, -1).transpose(1, 2).reshape(weight.shape)


def decoder_norm(values: Any) -> Seed:
    return lambda patch: patch.change(patch.model.decoder.norm.weight, values(patch))


def head(values: Any) -> Seed:
    """The head gets a matrix of its own."""

    def seed(patch: Patch) -> None:
        head = patch.model.lm_head
        patch.setattr(head, "weight", torch.nn.Parameter(values(patch, head.weight.detach().clone())))

    return seed


def embedding(stack: str, values: Any) -> Seed:
    def seed(patch: Patch) -> None:
        table = getattr(patch.model, stack).embed_tokens
        patch.setattr(table, "weight", torch.nn.Parameter(values(table.weight.detach().clone())))

    return seed
