"""Mistakes of weights: rows, layers and biases."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from detection.families.mistakes.seed import Seed, last, mistake
from detection.families.patch import filled
from detection.families.subject import Subject


def _linears(subject: Subject) -> list[tuple[str, nn.Linear]]:
    return [
        (path, module)
        for path, module in subject.modules()
        if isinstance(module, nn.Linear) and any(part.isdigit() for part in path.split("."))
    ]


@mistake
def two_rows_exchanged(subject: Subject) -> Seed | None:
    """Two outputs of a projection, each in the other's place."""
    linear = last(_linears(subject), before=1)
    if linear is None:
        return None
    weight: Any = linear[1].weight
    order = torch.arange(len(weight))
    order[:2] = torch.tensor([1, 0])
    return Seed((linear[0],), lambda: filled(weight, weight[order]))


@mistake
def another_layers_weight(subject: Subject) -> Seed | None:
    """The first layer's weight in a later one."""
    every = _linears(subject)
    for path, module in reversed(every):
        for earlier_path, earlier in every:
            alike = [part for part in path.split(".") if not part.isdigit()] == [
                part for part in earlier_path.split(".") if not part.isdigit()
            ]
            if alike and earlier_path != path and earlier.weight.shape == module.weight.shape:
                return Seed((path,), lambda w=module.weight, v=earlier.weight: filled(w, v))  # type: ignore[misc]
    return None


@mistake
def heads_in_another_order(subject: Subject) -> Seed | None:
    """Rows of a query projection, its last first: heads and channels from the end."""
    names = ("q_proj", "query", "q_b_proj", "qkv_proj", "query_key_value", "in_proj", "Wqkv")
    query = last((path, module) for path, module in _linears(subject) if path.rpartition(".")[2] in names)
    if query is None:
        return None
    weight: Any = query[1].weight
    return Seed((query[0],), lambda: filled(weight, weight.flip(0)))


@mistake
def bias_left_out(subject: Subject) -> Seed | None:
    """A bias of 0."""
    biased = last(
        (path, module)
        for path, module in subject.modules()
        if isinstance(getattr(module, "bias", None), torch.Tensor) and any(part.isdigit() for part in path.split("."))
    )
    if biased is None:
        return None
    bias: Any = biased[1].bias
    return Seed((biased[0],), lambda: filled(bias, torch.zeros_like(bias)))


@mistake
def embeddings_one_row_on(subject: Subject) -> Seed | None:
    """A vocabulary shifted by one special token; the head with it where they are tied."""
    embedding: Any = subject.model.get_input_embeddings()
    if not hasattr(embedding, "weight"):  # a book of codes each, as MusicGen has
        return None
    every = dict(subject.model.named_modules())
    paths = tuple(path for path, module in every.items() if getattr(module, "weight", None) is embedding.weight)
    return Seed(paths, lambda: filled(embedding.weight, embedding.weight.roll(1, 0)))
