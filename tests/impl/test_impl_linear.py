"""The linear layer: one row on the CPU is a product of matrix and vector, as exact as torch's of matrices."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from qwen3_encdec.linear import Qwen3Linear

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
ROUNDING = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


class Kernels(TorchDispatchMode):
    """The names of the operations that ran, views left out."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func.is_view:
            self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def drawn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def linear(dtype: torch.dtype = torch.float32, bias: bool = False, wide: int = 3072) -> Qwen3Linear:
    layer = Qwen3Linear(wide, 40, bias=bias).to(dtype)
    with torch.no_grad():
        layer.weight.copy_(drawn(40, wide))
        if bias:
            layer.bias.copy_(drawn(40, seed=5))
    return layer


@DTYPES
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_one_row_is_as_exact_as_the_same_row_among_others(dtype: torch.dtype, bias: bool) -> None:
    layer, x = linear(dtype, bias), drawn(1, 1, 3072, dtype=dtype)
    weights = layer.weight.double()
    expected = x.double() @ weights.T + (layer.bias.double() if bias else 0)
    carried = (x.double().abs() @ weights.abs().T).amax()
    actual = layer(x)
    assert actual.shape == (1, 1, 40) and actual.dtype == dtype
    worst = (layer(x.expand(2, 1, -1)).double() - expected).abs().max()  # torch's own, of two rows
    allowed = 2 * worst + 2.0**-24 * math.sqrt(3072) * carried + 2 * ROUNDING[dtype] * expected.abs().amax()
    assert (actual.double() - expected).abs().max() <= allowed


@torch.no_grad()
def test_one_row_is_a_product_with_a_vector_and_two_are_one_of_matrices() -> None:
    layer = linear()
    for rows, kernels in ((1, ["mv"]), (2, ["mm"])):
        with Kernels() as ran:
            layer(drawn(rows, 1, 3072))
        assert [name.removeprefix("add") for name in ran.names if name in ("mv", "addmv", "mm", "addmm")] == kernels


@torch.no_grad()
def test_as_many_elements_as_one_row_in_another_shape_are_refused() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear()(drawn(1, 2, 1536))


def test_the_gradients_of_one_row_are_those_of_torchs_linear() -> None:
    layer, x = linear(bias=True), drawn(1, 1, 3072).requires_grad_()
    inputs = (x, layer.weight, layer.bias)
    ours = torch.autograd.grad(layer(x).square().sum(), inputs)
    theirs = torch.autograd.grad(nn.functional.linear(*inputs).square().sum(), inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_autocast_casts_one_row_too() -> None:
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert linear(bias=True)(drawn(1, 1, 3072)).dtype == torch.bfloat16


class KnowsLinearAlone(torch.Tensor):
    """A weight as quantization libraries make them."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.matmul, torch.Tensor.matmul, torch.mv):
            raise NotImplementedError(func)
        return super().__torch_function__(func, types, args, kwargs or {})


@torch.no_grad()
def test_a_weight_that_is_more_than_a_parameter_is_given_to_linear() -> None:
    layer, x = linear(), drawn(1, 1, 3072)
    expected = layer(x)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(KnowsLinearAlone), requires_grad=False)
    torch.testing.assert_close(layer(x).as_subclass(torch.Tensor), expected, rtol=1e-4, atol=1e-4)
    nn.utils.parametrizations.weight_norm(plain := linear())
    torch.testing.assert_close(plain(x), expected, rtol=1e-4, atol=1e-4)
