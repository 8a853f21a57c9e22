"""A mask of infinities is as finite as its golden's: what reads it is judged, and equal infinities are no error."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_golden import Array, Recording, pb, tensor
from qwen3_golden.recording import plain_provenance
from qwen3_parity.check import check
from qwen3_parity.slices.network import network
from qwen3_reference.graph.floors import floors as drawn_floors
from qwen3_reference.graph.stored import message_of
from qwen3_spec.graph import Graph, Line, Node, Ref

MASK = np.array([0, 0, -np.inf, -np.inf], np.float32)
SCORES = np.random.Generator(np.random.PCG64(0)).normal(size=(2, 3, 4)).astype(np.float32)


def node(op: str, *operands: object, module: str) -> Node:
    return Node(op, operands, {}, "float32", (None, None, 4), module, (Line("modeling.py", 1, "forward"),))  # type: ignore[arg-type]


GRAPH = Graph(
    ("scores",),
    (),
    {"hidden": MASK},
    (
        node("expand.default", Ref(1), (2, 3, 4), module="mask"),
        node("add.Tensor", Ref(0), Ref(2), module="attention"),
        node("softmax.int", Ref(3), -1, module="attention"),
    ),
    {("mask", 0): 2, ("logits", 0): 4},
)


def run(mask: Array = MASK) -> dict[str, Array]:
    powers = np.exp(SCORES + mask)
    return {"mask": np.broadcast_to(mask, SCORES.shape), "logits": powers / powers.sum(-1, keepdims=True)}


def recording(values: dict[str, Array], producer: str) -> Recording:
    axes = ("batch", "query", "channel")
    taps = [tensor(name, np.ascontiguousarray(value, np.float32), axes=axes) for name, value in values.items()]
    case = pb.Case(name="masked", mode=pb.GRAPH, steps=[3])
    backend = pb.EAGER if producer == "qwen3_reference" else pb.FOREIGN
    run_ = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=backend)
    inputs = [tensor("input.scores", SCORES, axes=axes, op="input")]
    return Recording(case, plain_provenance(producer), run_, inputs + taps, graph=message_of(GRAPH, "Masked", "{}"))


def golden() -> Recording:
    bare = recording(run(), "qwen3_reference")
    floors = drawn_floors(GRAPH, {"scores": SCORES}, bare)
    for item in bare:
        if item.key in floors:
            item.info.floor.CopyFrom(floors[item.key])
    return bare


@pytest.mark.filterwarnings("error")
def test_equal_infinities_are_no_error_and_the_values_that_read_them_are_judged() -> None:
    verdicts = check(golden(), recording(run(), "port"), {})
    assert verdicts.word == "parity"
    assert all(tap.judged_alone for tap in verdicts.taps)


def test_an_infinity_where_the_golden_has_a_number_is_wrong_and_what_reads_it_is_not_judged() -> None:
    candidate = recording(run(np.array([0, -np.inf, -np.inf, -np.inf], np.float32)), "port")
    assert network(golden(), candidate, {}).broken == {2}
    wrong = {tap.name: tap.problem is not None for tap in check(golden(), candidate, {}).taps}
    assert wrong["mask"]


def test_probabilities_with_an_infinite_mask_that_are_wrong_are_blamed() -> None:
    values = run()
    candidate = recording({**values, "logits": values["logits"] * np.float32(1.001)}, "port")
    wrong = {tap.name: tap.problem is not None for tap in check(golden(), candidate, {}).taps}
    assert wrong == {"mask": False, "logits": True}
