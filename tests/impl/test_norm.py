"""RMSNorm has Hugging Face's bits in every mixture of dtypes, with gradients and without."""

from __future__ import annotations

import pytest
import torch
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm as HfNorm

from qwen3_encdec.norm import Qwen3RMSNorm as Norm

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
rows = pytest.mark.parametrize("rows_dtype", DTYPES, ids=str)
weights = pytest.mark.parametrize("weight_dtype", DTYPES, ids=str)
gradients = pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "grad"])


def _norms(dtype: torch.dtype) -> tuple[Norm, HfNorm]:
    ours, theirs = Norm(16, eps=1e-5), HfNorm(16, eps=1e-5)
    torch.manual_seed(1)
    weight = 1 + 0.3 * torch.randn(16)
    for norm in (ours, theirs):
        norm.weight.data = weight.to(dtype)
    return ours, theirs


@rows
@weights
@gradients
def test_a_norm_has_hugging_faces_bits(rows_dtype: torch.dtype, weight_dtype: torch.dtype, gradients: bool) -> None:
    ours, theirs = _norms(weight_dtype)
    x = torch.cat((torch.randn(4, 16), torch.randn(1, 16) * 1e-3, torch.randn(1, 16) * 300)).to(rows_dtype)
    with torch.set_grad_enabled(gradients):
        actual, expected = ours(x), theirs(x)
    assert actual.dtype == expected.dtype
    assert torch.equal(actual, expected)


@rows
@weights
@gradients
def test_a_norm_leaves_its_input_alone(rows_dtype: torch.dtype, weight_dtype: torch.dtype, gradients: bool) -> None:
    ours, _ = _norms(weight_dtype)
    x = torch.randn(2, 5, 16).to(rows_dtype)
    before = x.clone()
    with torch.set_grad_enabled(gradients):
        ours(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_norms_gradients_are_hugging_faces(dtype: torch.dtype) -> None:
    found = []
    for norm in _norms(dtype):
        torch.manual_seed(2)
        x = torch.randn(2, 5, 16).to(dtype).requires_grad_()
        norm(x).square().sum().backward()
        assert x.grad is not None and norm.weight.grad is not None
        found.append((x.grad, norm.weight.grad))
    for actual, expected in zip(*found, strict=True):
        torch.testing.assert_close(actual, expected)
