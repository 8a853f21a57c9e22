"""Rotations have Hugging Face's bits in every mixture of dtypes, with gradients and without."""

from __future__ import annotations

import pytest
import torch
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb as hf_rotation

from qwen3_encdec.rope import apply_rotary, apply_rotary_pos_emb, rotary_tables

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
heads = pytest.mark.parametrize("dtype", DTYPES, ids=str)
tables = pytest.mark.parametrize("table_dtype", DTYPES, ids=str)
gradients = pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "grad"])
POSITIONS = torch.tensor([[0, 1, 2, 70_000, 5], [9, 8, 7, 6, 5]])


def _drawn(dtype: torch.dtype, batch: int = 2, count: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(batch, 5, count, 16, generator=generator).to(dtype).transpose(1, 2)  # as projections come


def _tables(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return rotary_tables(1e4 ** -(torch.arange(8) / 8), POSITIONS, dtype)


@heads
@tables
@gradients
def test_a_rotation_has_hugging_faces_bits(dtype: torch.dtype, table_dtype: torch.dtype, gradients: bool) -> None:
    queries, keys, (cos, sin) = _drawn(dtype), _drawn(dtype, count=1), _tables(table_dtype)
    with torch.set_grad_enabled(gradients):
        actual = apply_rotary_pos_emb(queries, keys, cos, sin)
        expected = hf_rotation(queries, keys, cos, sin)
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)


@heads
@gradients
def test_a_rotation_leaves_heads_and_tables_alone(dtype: torch.dtype, gradients: bool) -> None:
    given = _drawn(dtype), *_tables(dtype)
    before = [tensor.clone() for tensor in given]
    with torch.set_grad_enabled(gradients):
        apply_rotary(*given)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(given, before, strict=True))


@heads
def test_a_rotations_gradients_are_hugging_faces(dtype: torch.dtype) -> None:
    found = []
    for rotate in (apply_rotary_pos_emb, hf_rotation):
        inputs = [_drawn(dtype), _drawn(dtype, count=1), *_tables(dtype)]
        for tensor in inputs:
            tensor.requires_grad_()
        queries, keys = rotate(*inputs)
        found.append(torch.autograd.grad(queries.square().sum() + keys.square().sum(), inputs))
    for actual, expected in zip(*found, strict=True):
        torch.testing.assert_close(actual, expected)


@gradients
def test_one_row_at_the_positions_of_two_becomes_two(gradients: bool) -> None:
    heads, (cos, sin) = _drawn(torch.float32, batch=1), _tables(torch.float32)
    with torch.set_grad_enabled(gradients):
        actual = apply_rotary(heads, cos, sin)
    assert torch.equal(actual, apply_rotary(heads.expand(2, -1, -1, -1), cos, sin))
    assert not torch.equal(actual[0], actual[1])


@gradients
def test_a_sine_of_more_digits_than_the_cosine_keeps_them(gradients: bool) -> None:
    heads, (cos, _), (_, sin) = _drawn(torch.float32), _tables(torch.float32), _tables(torch.float64)
    with torch.set_grad_enabled(gradients):
        assert apply_rotary(heads, cos, sin).dtype == torch.float64
