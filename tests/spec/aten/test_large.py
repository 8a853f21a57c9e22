"""Products with large matrices, a block at a time and draws beside one another: the numbers of whole products."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten import large
from qwen3_spec.graph import Graph, Node, Ref
from qwen3_spec.slices import Slices
from qwen3_spec.sums import dot_products


def node(op: str, *operands: object) -> Node:
    return Node(op, operands, {}, "float32", (None, None, None), "head", ())


def slices() -> Slices:
    """An activation, then two weights one behind the other, of which the first has a bias."""
    rng = np.random.default_rng(3)
    nodes = (
        node("silu.default", Ref(0)),
        node("linear.default", Ref(4), Ref(1), Ref(2)),
        node("linear.default", Ref(5), Ref(3)),
    )
    whole = Graph(("x",), ("first", "bias", "second"), {}, nodes, {("y", 0): 6})
    shapes = {"x": (2, 3, 600), "first": (40, 600), "bias": (40,), "second": (7, 40)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return Slices(whole, whole.leaf_values(arrays), {})


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LARGE", 1)
    monkeypatch.setattr(large, "_BLOCK", 2000)  # some columns, not all


def moved(here: Slices) -> list[Array]:
    truth = here.value(6)
    return [here.value(6, noise) - truth for noise in here.draws]


@pytest.mark.usefixtures("small_is_large")
def test_draws_scatter_as_they_do_alone() -> None:
    here = slices()
    truth, scattered = here.value(6), moved(here)
    assert here.draws[0].bases and len({id(draw.bases) for draw in here.draws}) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "LARGE", 1 << 40)
        plain = slices()
        np.testing.assert_allclose(truth, plain.value(6), rtol=1e-13, atol=1e-12)
        size = np.sqrt(np.mean(np.square(moved(plain))))
        np.testing.assert_allclose(scattered, moved(plain), rtol=0, atol=1e-3 * size)


@pytest.mark.usefixtures("small_is_large")
def test_draws_begin_from_the_product_that_is_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    here, products, whole = slices(), list[tuple[int, ...]](), large.products

    def counting(a: Array, b: Array) -> tuple[Array, Array]:
        products.append(b.shape)
        return whole(a, b)

    monkeypatch.setattr(large, "products", counting)
    monkeypatch.setattr(large, "product", None)  # no draw computes another
    truth = here.value(6)
    np.testing.assert_array_equal(here.value(6), truth)
    moved(here)
    assert products == [(600, 40), (40, 7)]


@pytest.mark.usefixtures("small_is_large")
def test_the_truth_of_other_values_is_theirs() -> None:
    here, x = slices(), np.ones((2, 3, 600), np.float32)
    recorded = Slices(here.graph, here.leaves, {4: np.zeros_like(x)})
    first = recorded.value(5)
    np.testing.assert_allclose(
        recorded.value(5, instead={4: x}) - first,
        np.broadcast_to(here.leaves[1].astype(np.float64).sum(1), first.shape),
        rtol=1e-12,
        atol=1e-12,
    )
    np.testing.assert_array_equal(recorded.value(5), first)


@pytest.mark.usefixtures("small_is_large")
def test_a_draw_is_beside_its_own_weight_alone() -> None:
    here = slices()
    before = moved(here)[1]
    doubled = Slices(here.graph, {**here.leaves, 1: here.leaves[1] * np.float32(2)}, {})
    draw = here.draws[1]
    twice = doubled.value(6, draw) - doubled.value(6)
    assert np.abs(twice).max() < 20 * np.abs(before).max()  # were it beside the first, by as much as the weight


@pytest.mark.usefixtures("small_is_large")
def test_what_is_too_large_to_be_held_is_computed_for_each_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    held = moved(slices())
    monkeypatch.setattr(large, "HELD", 0)
    here = slices()
    np.testing.assert_allclose(moved(here), held, rtol=0, atol=1e-3 * np.sqrt(np.mean(np.square(held))))
    assert not here.draws[0].bases


@pytest.mark.parametrize("terms", [30, 600])
def test_blocks_of_columns_drift_as_the_whole(terms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 5, terms)), rng.normal(size=(terms, 11)).astype(np.float32)
    monkeypatch.setattr(large, "_BLOCK", 3 * terms)
    for part, whole in zip(large.products(a, b), dot_products(a, b), strict=True):
        np.testing.assert_allclose(part, whole, rtol=1e-5)
    np.testing.assert_allclose(large.product(a, b), a @ b.astype(np.float64), rtol=1e-12, atol=1e-12)


def test_taps_of_one_value_share_its_unit_and_other_cells_do_not() -> None:
    here = slices()
    truth = here.value(6)
    counts = np.ones(truth.shape, bool)
    unit = here.unit(6, truth, counts)
    assert here.unit(6, truth.copy(), counts.copy()) is unit
    fewer = counts.copy()
    fewer[0] = False
    assert not np.array_equal(here.unit(6, truth, fewer), unit)
    assert not np.array_equal(here.unit(6, truth, counts, "bfloat16"), unit)
