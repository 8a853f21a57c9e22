"""What one token takes on the CPU: a product of matrix and vector, and a norm in four kernels, as exact as torch's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from qwen3_encdec import Qwen3RMSNorm
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


def exact_norm(x: torch.Tensor, norm: Qwen3RMSNorm) -> torch.Tensor:
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + norm.variance_epsilon).sqrt() * norm.weight.double()


def a_norm(width: int, dtype: torch.dtype = torch.float32, eps: float = 1e-6) -> Qwen3RMSNorm:
    norm = Qwen3RMSNorm(width, eps=eps)
    with torch.no_grad():
        norm.weight.copy_(drawn(width, seed=9))
    return norm.to(dtype)


@DTYPES
@pytest.mark.parametrize("scale", [1e-30, 1e-5, 1e-3, 1.0, 3e2])
@pytest.mark.parametrize("shape", [(1, 1, 5120), (1, 1, 16, 128)])
@torch.no_grad()
def test_the_norm_of_one_token_is_exact_to_rounding(dtype: torch.dtype, scale: float, shape: tuple[int, ...]) -> None:
    norm, x = a_norm(shape[-1], dtype), (scale * drawn(*shape)).to(dtype)
    expected = exact_norm(x, norm)
    units = ROUNDING[dtype] * (3 if dtype != torch.float32 else 12)
    assert ((norm(x).double() - expected).abs() <= units * expected.abs() + 2.0**-24).all()


@torch.no_grad()
def test_the_norm_of_one_token_takes_four_kernels_and_that_of_two_many() -> None:
    norm, x = a_norm(64), drawn(1, 2, 64)
    with Kernels() as one:
        norm(x[:, :1])
    assert len(one.names) == 4
    with Kernels() as two:
        norm(x)
    assert len(two.names) >= 6 and "hypot" not in two.names


@torch.no_grad()
def test_the_norm_of_one_token_follows_an_eps_that_changes() -> None:
    norm, x = a_norm(64), 1e-3 * drawn(1, 1, 64)
    norm.variance_epsilon = 1e-2
    torch.testing.assert_close(norm(x).double(), exact_norm(x, norm), rtol=1e-6, atol=1e-9)


@torch.no_grad()
def test_the_weight_of_one_token_is_applied_after_the_cast() -> None:
    norm, x = a_norm(4096, torch.bfloat16), drawn(1, 1, 4096, dtype=torch.bfloat16)
    wide = x.float()
    cast = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm.variance_epsilon)).to(torch.bfloat16)
    late = (cast.float() * norm.weight.float()).to(torch.bfloat16)
    assert (norm(x) != cast * norm.weight).float().mean() < 1e-3
    early = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm.variance_epsilon)) * norm.weight.float()
    assert (early.to(torch.bfloat16) != late).float().mean() > 0.05


def test_zeros_stay_zeros_and_have_a_finite_gradient() -> None:
    norm, x = a_norm(64), torch.zeros(1, 1, 64, requires_grad=True)
    y = norm(x)
    y.sum().backward()
    assert not y.any() and x.grad is not None and bool(x.grad.isfinite().all())


def test_a_norm_that_was_built_without_memory_knows_its_eps() -> None:
    with torch.device("meta"):
        norm = Qwen3RMSNorm(64, eps=1e-2)
    norm = norm.to_empty(device="cpu")
    with torch.no_grad():
        norm.weight.fill_(1.0)
        x = 1e-3 * drawn(1, 1, 64)
        torch.testing.assert_close(norm(x).double(), exact_norm(x, norm), rtol=1e-6, atol=1e-9)
