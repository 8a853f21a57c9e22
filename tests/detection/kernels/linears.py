"""Bugs of matrix products with weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import linear

from detection.kernels.seeds import bug, cleared, half, running_sum, tail, whole
from detection.mutants.mutant import Seed, attention, words
from detection.mutants.patch import Patch

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
QUERY, OUT, DOWN = attention("q_proj"), attention("o_proj"), words("mlp.down_proj")
VALUES = attention("v_proj encoder_v_proj")
DECODERS = ("encdec/ragged", "encdec/window", "decoder/ragged_decode")


def computed(patch: Patch, module: Any, product: Product) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        y = product(x, module.weight)
        return y if module.bias is None else y + module.bias

    patch.setattr(module, "forward", forward)


def projection(name: str, product: Product) -> Seed:
    def seed(patch: Patch) -> None:
        for module in patch.attentions():
            computed(patch, getattr(module, name), product)

    return seed


def block(name: str, product: Product) -> Seed:
    def seed(patch: Patch) -> None:
        for layer in patch.layers():
            computed(patch, getattr(layer.mlp, name), product)

    return seed


def head(product: Product) -> Seed:
    return lambda patch: computed(patch, patch.model.lm_head, product)


def inner_tail(size: int) -> Product:
    return lambda x, w: linear(whole(x, -1, size), whole(w, 1, size))


def outer_tail(size: int) -> Product:
    return lambda x, w: cleared(linear(x, w), -1, size)


def row_tail(size: int) -> Product:
    """Rows, batch and sequence flattened, beyond whole blocks are never written."""
    return lambda x, w: cleared(linear(x, w).flatten(0, -2), 0, size).view(*x.shape[:-1], -1)


def inner_tail_twice(size: int) -> Product:
    return lambda x, w: linear(x, w) + linear(tail(x, -1, size), tail(w, 1, size))


def summed_in(dtype: torch.dtype) -> Product:
    return lambda x, w: running_sum(x[..., None, :] * w, dtype)


def first_row_for_the_batch(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return linear(x[:1], w).expand(len(x), -1, -1).clone()


def by_steps_of_four(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Split over inputs in four slices whose last one is dropped."""
    length = w.shape[1] // 4 * 3
    return linear(x[..., :length], w[:, :length])


def int8_rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    scale = w.abs().amax(1, keepdim=True) / 127
    return linear(x, (w / scale).round() * scale)


def leading_dimension(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Rows of the weight are taken to be one longer than they are: each starts one later than the one before."""
    padded = torch.cat((w.flatten(), w.new_zeros(len(w))))
    return linear(x, padded.as_strided(w.shape, (w.shape[1] + 1, 1)))


def tiles_exchanged(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Output channels of each pair of tiles of 2 change places."""
    y = linear(x, w)
    size = y.shape[-1] // 4 * 4
    pairs = y[..., :size].view(*y.shape[:-1], -1, 2, 2).flip(-2).flatten(-3)
    return torch.cat((pairs, y[..., size:]), -1)


MUTANTS = (
    bug("query-inner-tail-16", "q_proj leaves out input channels beyond whole blocks of 16",
        projection("q_proj", inner_tail(16)), QUERY),
    bug("query-outer-tail-16", "output channels of q_proj beyond whole blocks of 16 stay 0",
        projection("q_proj", outer_tail(16)), QUERY),
    bug("query-rows-tail-8", "rows of q_proj beyond whole blocks of 8 tokens stay 0",
        projection("q_proj", row_tail(8)), QUERY),
    bug("query-leading-dimension", "rows of q_proj's weight are read one element too far apart",
        projection("q_proj", leading_dimension), QUERY),
    bug("value-first-row", "v_proj computes the first row of the batch for all",
        projection("v_proj", first_row_for_the_batch), VALUES),
    bug("value-tiles-exchanged", "output tiles of 2 channels of v_proj change places in pairs",
        projection("v_proj", tiles_exchanged), VALUES),
    bug("out-inner-tail-32", "o_proj leaves out input channels beyond whole blocks of 32",
        projection("o_proj", inner_tail(32)), OUT),
    bug("out-last-split", "o_proj split over its inputs drops the last of 4 slices",
        projection("o_proj", by_steps_of_four), OUT),
    bug("down-inner-tail-doubled", "down_proj adds channels beyond a block of 64 twice",
        block("down_proj", inner_tail_twice(64)), DOWN),
    bug("down-bfloat16-sum", "down_proj is accumulated in bfloat16",
        block("down_proj", summed_in(torch.bfloat16)), DOWN),
    bug("down-float16-inputs", "down_proj reads its input rounded to float16",
        block("down_proj", lambda x, w: linear(half(torch.float16)(x), w)), DOWN),
    bug("gate-int8", "gate_proj's weight is rounded to 8 bits a row",
        block("gate_proj", int8_rows), words("mlp.gate_proj")),
    bug("up-outer-tail-64", "output channels of up_proj beyond a block of 64 stay 0",
        block("up_proj", outer_tail(64)), words("mlp.up_proj")),
    bug("logits-tail-128", "logits beyond whole blocks of 128 of the vocabulary stay 0",
        head(outer_tail(128)), words("logits"), DECODERS),
    bug("logits-inner-tail-16", "lm_head leaves out channels beyond whole blocks of 16",
        head(inner_tail(16)), words("logits"), DECODERS),
    bug("logits-bfloat16", "lm_head reads weights and states rounded to bfloat16",
        head(lambda x, w: linear(half(torch.bfloat16)(x), half(torch.bfloat16)(w))), words("logits"), DECODERS),
)  # fmt: skip
