"""Draws of Monte Carlo arithmetic scatter about as far as honest float32 errs, in whatever order it adds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten.noise import ROUNDOFF, draws
from qwen3_spec.graph import Graph, Node, Ref
from qwen3_spec.slices import Slices


def cancelling(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    halves = np.repeat(rng.normal(size=(*shape[:-1], shape[-1] // 2)), 2, -1)
    return np.asarray(halves * ([1, -1.001] * (shape[-1] // 2)))


KINDS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "plain": lambda rng, shape: rng.normal(size=shape),
    "offset": lambda rng, shape: rng.normal(size=shape) + 3,
    "one sign": lambda rng, shape: np.abs(rng.normal(size=shape)),
    "cancelling": cancelling,
    "outlier": lambda rng, shape: rng.normal(size=shape) * np.where(np.arange(shape[-1]) == 3, 1000, 1),
    "sparse": lambda rng, shape: rng.normal(size=shape) * (rng.random(shape) < 0.05),
}


def node(op: str, *operands: object, shape: tuple[int | None, ...] = (None, None)) -> Node:
    return Node(op, operands, {}, "float32", shape, "m", ())


def plain_sum(x: Array) -> Array:
    return np.asarray(np.add.accumulate(x, axis=-1, dtype=np.float32)[..., -1])


def linear(x: Array, w: Array, total: Callable[[Array], Array]) -> Array:
    return total(x[:, None] * w)


def norm(x: Array, w: Array, total: Callable[[Array], Array]) -> Array:
    mean = total(x * x) / np.float32(x.shape[-1])
    return np.asarray(x * (1 / np.sqrt(mean + np.float32(1e-6)))[:, None])


def softmax(x: Array, w: Array, total: Callable[[Array], Array]) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / total(powers)[:, None])


NETWORKS = {
    linear: (node("linear.default", Ref(0), Ref(1)),),
    norm: (
        node("mul.Tensor", Ref(0), Ref(0)),
        node("mean.dim", Ref(2), (-1,), True),
        node("add.Tensor", Ref(3), 1e-6),
        node("rsqrt.default", Ref(4)),
        node("mul.Tensor", Ref(0), Ref(5)),
    ),
    softmax: (node("softmax.int", Ref(0), -1),),
}
"""float32 code of an op, with a sum to choose, and the op as a graph."""


def slices(nodes: tuple[Node, ...], **arrays: Array) -> tuple[Slices, int]:
    graph = Graph(tuple(arrays), (), {}, nodes, {("y", 0): len(arrays) + len(nodes) - 1})
    return Slices(graph, graph.leaf_values(arrays), {}), len(arrays) + len(nodes) - 1


@pytest.mark.parametrize("size", [16, 256, 2048])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", NETWORKS, ids=lambda op: op.__name__)
def test_honest_float32_errs_by_about_one_unit_whatever_the_order_of_its_sums(
    op: Callable[..., Array], kind: str, size: int
) -> None:
    rng = np.random.Generator(np.random.PCG64(size))
    x, w = (KINDS[kind](rng, (rows, size)).astype(np.float32) for rows in (24, 16))
    judged, value = slices(NETWORKS[op], x=x, w=w)
    truth = judged.value(value)
    unit = judged.unit(value, truth, np.ones(truth.shape, bool))
    orders = {
        "forwards": plain_sum,
        "backwards": lambda terms: plain_sum(terms[..., ::-1]),
        "torch": lambda terms: torch.from_numpy(np.ascontiguousarray(terms)).sum(-1).numpy(),
    }
    errors = {name: (op(x, w, total) - truth) / unit for name, total in orders.items()}
    used = {name: float(np.sqrt((error * error).mean())) for name, error in errors.items()}
    assert max(used.values()) < 2.2, used
    assert max(used.values()) > 0.03, used  # or nothing would ever be wrong
    assert max(float(np.abs(error).max()) for error in errors.values()) < 9


def test_a_unit_shows_a_rounding_to_bfloat16_and_an_eps_that_is_another() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    x, w = (rng.normal(size=(rows, 64)).astype(np.float32) for rows in (24, 16))
    judged, value = slices(NETWORKS[linear], x=x, w=w)
    truth = judged.value(value)
    unit = judged.unit(value, truth, np.ones(truth.shape, bool))
    narrow = torch.from_numpy(x).bfloat16().float().numpy() @ w.T
    assert np.sqrt(np.square((narrow - truth) / unit).mean()) > 1000
    judged, value = slices(NETWORKS[norm], x=x, w=w)
    truth = judged.value(value)
    unit = judged.unit(value, truth, np.ones(truth.shape, bool))
    other = x * (1 / np.sqrt((x * x).mean(-1) + np.float32(1e-5)))[:, None]
    assert np.sqrt(np.square((other - truth) / unit).mean()) > 20


def test_one_token_repeated_rounds_alike_and_is_forgiven() -> None:
    probs, values = np.full((2, 3, 5, 200), 0.005, np.float32), np.full((2, 3, 200, 4), 0.7, np.float32)
    judged, value = slices((node("matmul.default", Ref(0), Ref(1), shape=(None,) * 4),), p=probs, v=values)
    truth = judged.value(value)
    unit = judged.unit(value, truth, np.ones(truth.shape, bool))
    products = np.swapaxes(probs[..., None] * values[:, :, None], -1, -2)
    assert float(np.abs((plain_sum(products) - truth) / unit).max()) < 9


def test_numbers_that_the_type_holds_were_exact_and_stay() -> None:
    (noise, *_) = draws(1)
    positions, frequencies = np.arange(5.0)[:, None], np.asarray([1.0, 0.5, 0.1])
    angles = noise.at(7).result(positions * frequencies, "float32")
    assert (angles[:, :2] == positions * frequencies[:2]).all()
    assert (angles[1:, 2] != (positions * frequencies)[1:, 2]).all()
    assert np.isneginf(noise.at(7).result(np.asarray([-np.inf, 0.1]), "float32")[0])


def test_a_single_number_is_rounded_as_rows_are() -> None:
    (noise, *_) = draws(1, narrow=True)
    assert noise.at(3).cast(np.asarray(0.1), "bfloat16") != 0.1
    assert noise.at(3).cast(np.asarray(0.5), "bfloat16") == 0.5


def test_a_narrow_draw_moves_by_the_graphs_own_dtypes_and_a_wide_one_by_float32s() -> None:
    x = np.random.Generator(np.random.PCG64(0)).normal(size=4000)
    for narrow, dtype, most in [
        (False, "bfloat16", ROUNDOFF["float32"]),
        (True, "bfloat16", ROUNDOFF["bfloat16"]),
        (True, "float32", ROUNDOFF["float32"]),
        (True, "float16", ROUNDOFF["float16"]),
    ]:
        (noise, *_) = draws(1, narrow=narrow)
        error = np.abs(noise.at(3).result(x, dtype) / x - 1)
        assert 0.9 * most < error.max() <= most * (1 + 1e-6)
        assert (noise.at(3).cast(x, dtype) == x).all() == (not narrow or dtype == "float32")


@pytest.mark.parametrize("op", ["_to_copy.default", "type_as.default"])
def test_a_cast_to_a_narrow_dtype_rounds_whatever_it_is_called(op: str) -> None:
    cast = Node(op, (Ref(0), Ref(0)) if "as" in op else (Ref(0),), {}, "bfloat16", (4,), "m", ())
    slices = Slices(Graph(("x",), (), {}, (cast,), {("y", 0): 1}), {0: np.full(4, 0.1)}, {}, narrow=True)
    (noise, *_) = draws(1, narrow=True)
    assert (slices.every({1}, noise)[1] != slices.every({1})[1]).all()


def test_a_draw_depends_on_draw_and_node_alone() -> None:
    first, second = draws(2)
    x = np.ones(5) / 3
    assert (first.at(4).rounded(x) == draws(1)[0].at(4).rounded(x)).all()
    assert (first.at(4).rounded(x) != first.at(5).rounded(x)).all()
    assert (first.at(4).rounded(x) != second.at(4).rounded(x)).all()


def test_a_running_sum_carries_what_it_lost() -> None:
    x = np.random.Generator(np.random.PCG64(0)).normal(size=(200, 500)) + 1
    errors = np.stack([noise.at(0).running_sum(x, 1) - np.cumsum(x, 1) for noise in draws(8)])
    spread = np.sqrt(np.square(errors).mean((0, 1)))
    float32 = np.add.accumulate(x.astype(np.float32), axis=1) - np.cumsum(x.astype(np.float32).astype(np.float64), 1)
    ratio = np.sqrt(np.square(float32).mean(0))[10:] / spread[10:]
    assert ratio.min() > 0.3 and ratio.max() < 2


def test_torchs_own_erf_is_within_a_few_units_where_gelu_cancels() -> None:
    x = np.linspace(-5, 5, 4096, dtype=np.float32).reshape(64, 64)
    judged, value = slices((node("gelu.default", Ref(0)),), x=x)
    truth = judged.value(value)
    unit = judged.unit(value, truth, np.ones(truth.shape, bool))
    errors = (torch.nn.functional.gelu(torch.from_numpy(x)).numpy() - truth) / unit
    assert np.abs(errors).max() < 8 and np.sqrt(np.square(errors).mean()) < 2
    tanh = torch.nn.functional.gelu(torch.from_numpy(x), approximate="tanh").numpy()
    assert np.sqrt(np.square((tanh - truth) / unit).mean()) > 50
