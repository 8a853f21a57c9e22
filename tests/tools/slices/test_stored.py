"""A graph is read from its message as it was written: node for node, bit for bit, equal layers stored once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawn import graphs, layered, message
from hypothesis import given, settings

from qwen3_golden import ParityError, pb
from qwen3_parity.slices.stored import graph_of
from qwen3_reference.graph.layers import in_layers, layers
from qwen3_reference.graph.stored import message_of
from qwen3_spec.graph import Graph, Node, Ref


def through_bytes(graph: Graph) -> Graph:
    stored = message_of(graph, "TinyModel", "{}").SerializeToString()
    return graph_of(pb.Graph.FromString(stored), "g.pb")


def same(read: Graph, written: Graph) -> bool:
    """repr tells -0.0 from 0.0, 1 from True, and takes NaN for NaN."""
    constants = [[(n, v.dtype, v.shape, v.tobytes()) for n, v in graph.constants.items()] for graph in (read, written)]
    names = (read.inputs, read.parameters) == (written.inputs, written.parameters)
    return (
        names and constants[0] == constants[1] and repr((read.nodes, read.taps)) == repr((written.nodes, written.taps))
    )


@settings(max_examples=50)
@given(graphs())
def test_any_graph_comes_back_as_it_went(graph: Graph) -> None:
    ordered, _ = in_layers(graph)
    assert same(through_bytes(graph), ordered)
    assert same(through_bytes(ordered), ordered)


@settings(max_examples=50)
@given(graphs())
def test_the_order_of_layers_keeps_what_each_value_is(graph: Graph) -> None:
    ordered, _ = in_layers(graph)
    ordered.check()
    assert sorted(described(graph)) == sorted(described(ordered))


def described(graph: Graph) -> list[str]:
    """Every value and tap by what it was made of, whatever its number."""
    known = [hashlib.sha256(name.encode()).hexdigest() for name in graph.leaves]
    for node in graph.nodes:
        reads = [known[read] for read in node.reads]
        bare = repr(
            replace(node, operands=bare_of(node.operands), named={k: bare_of(v) for k, v in node.named.items()})
        )
        known.append(hashlib.sha256(f"{bare}{reads}".encode()).hexdigest())
    return [*known, *(f"{key} {known[value]}" for key, value in graph.taps.items())]


def bare_of(operand: object) -> object:
    if isinstance(operand, Ref):
        return "value"
    return tuple(map(bare_of, operand)) if isinstance(operand, tuple) else operand


def test_equal_layers_are_stored_once_and_what_they_share_stands_before_them() -> None:
    stored = message(5)
    assert [call.layer for call in stored.call] == ["", "0", "1", "2", "3", "4", ""]
    assert [call.block for call in stored.call] == [0, 1, 1, 1, 1, 1, 2]
    assert sorted(stored.module) == ["", "model.layers.0", "model.layers.{layer}", "model.layers.{layer}.mlp"]
    assert message(50).ByteSize() < message(5).ByteSize() + 45 * 50


def test_a_layer_that_is_different_is_a_block_of_its_own() -> None:
    graph = layered(4)
    (place,) = [
        p for p, node in enumerate(graph.nodes) if (node.op, node.module) == ("sin.default", "model.layers.2.mlp")
    ]
    nodes = [*graph.nodes[:place], replace(graph.nodes[place], op="cos.default"), *graph.nodes[place + 1 :]]
    stored = message_of(replace(graph, nodes=tuple(nodes)), "TinyModel", "{}")
    assert [call.block for call in stored.call] == [0, 1, 1, 2, 1, 3]


def test_a_read_graph_computes_what_the_written_one_does() -> None:
    graph, rng = layered(), np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(2, 4)), **{name: rng.normal(size=4) for name in graph.parameters}}
    results = []
    for version in (graph, through_bytes(graph)):
        values = version.run(version.leaf_values(arrays))
        results.append(values[version.taps["y", 0]])
    np.testing.assert_array_equal(*results)


def test_sizes_that_follow_from_inputs_stand_first() -> None:
    def node(op: str, module: str, *operands: object, dtype: str = "float32") -> Node:
        return Node(op, operands, {}, dtype, (None,) if dtype else (), module, ())

    nodes = [node("neg.default", "m.layers.0", Ref(0))]
    nodes += [
        node("sym_size.int", "m.layers.0", Ref(0), 0, dtype=""),
        node("size_mul", "m.layers.0", Ref(2), 1, dtype=""),
    ]
    nodes += [node("view.default", f"m.layers.{number}", Ref(1), (Ref(3),)) for number in (0, 1)]
    ordered, segments = in_layers(Graph(("x",), (), {}, tuple(nodes), {("y", 0): 4, ("z", 0): 5}))
    assert [entry.op for entry in ordered.nodes[:2]] == ["sym_size.int", "size_mul"]
    assert [layer for layer, _ in segments] == ["", "0", "1"]


@pytest.mark.parametrize(
    ("paths", "layer"),
    [
        (["model.layers.0.mlp", "model.layers.1.mlp"], ("model.layers.", "0", "model.layers.{layer}.mlp")),
        (["h.0", "h.1"], ("h.", "0", "h.{layer}")),
        (["e.0.layer.3.a", "e.0.layer.4.a"], ("e.0.layer.", "3", "e.0.layer.{layer}.a")),
        (["blocks.7.experts.0", "blocks.8.experts.1"], ("blocks.", "7", "blocks.{layer}.experts.0")),
        (["only.0.mlp", "norm2.x"], ("", "", "only.0.mlp")),
    ],
)
def test_a_layer_is_the_first_list_on_the_path_that_repeats(paths: list[str], layer: tuple[str, str, str]) -> None:
    assert layers(paths)[paths[0]] == layer


def test_the_same_graph_is_the_same_bytes_in_every_hash_seed() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from drawn import message; import hashlib;"
        "print(hashlib.sha256(message().SerializeToString()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] == f"{hashlib.sha256(message().SerializeToString()).hexdigest()}\n".encode()


def test_what_a_newer_schema_adds_is_skipped() -> None:
    newer = message().SerializeToString() + b"\xa2\x06\x01x"  # field 100
    assert same(graph_of(pb.Graph.FromString(newer), "g.pb"), in_layers(layered())[0])


def test_parameters_say_their_pieces_dtypes_and_shapes() -> None:
    graph = layered(2)
    tensors = {name: np.zeros((3, 4), "f4") for name in graph.parameters}
    stored = message_of(graph, "TinyModel", "{}", {graph.parameters[1]: ["a", "b"]}, tensors)
    assert [(parameter.dtype, list(parameter.shape)) for parameter in stored.parameter] == [("float32", [3, 4])] * 2
    assert [list(parameter.piece) for parameter in stored.parameter] == [[], ["a", "b"]]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"operands": (1 << 70,)}, "an operand that the message cannot say"),
        ({"operands": (1j,)}, "an operand that the message cannot say"),
        ({"module": "layers.{layer}"}, "named with a brace"),
    ],
)
def test_what_a_message_cannot_say_is_not_written(change: dict[str, object], says: str) -> None:
    graph = layered(1)
    wrong = replace(graph, nodes=(replace(graph.nodes[0], **change), *graph.nodes[1:]))  # type: ignore[arg-type]
    with pytest.raises(ParityError, match=says) as caught:
        message_of(wrong, "TinyModel", "{}")
    assert caught.value.fault == "harness bug"
