"""A graph from anywhere is one sentence or a graph: never a hang, never gigabytes, never a traceback."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from drawn import message
from hypothesis import given, settings
from hypothesis import strategies as st

from qwen3_golden import ParityError, pb
from qwen3_parity.slices.run import computing, leaf_values
from qwen3_parity.slices.stored import MOST_NODES, graph_of

Change = Callable[[pb.Graph], object]


def many_calls(graph: pb.Graph) -> None:
    """A thousand nodes a call, a thousand calls and one."""
    block = graph.block.add(inputs=0, output=[])
    for _ in range(1000):
        block.node.add(op=0, dtype=0, module=0)
    for _ in range(MOST_NODES // 1000 + 1):
        graph.call.add(block=len(graph.block) - 1)


def many_operands(graph: pb.Graph) -> None:
    block = graph.block.add()
    node = block.node.add()
    node.operand.add().list.item.extend([pb.Operand(integer=1)] * 10_000)
    for _ in range(2_000):
        graph.call.add(block=len(graph.block) - 1)


def first_node(**fields: object) -> Change:
    def change(graph: pb.Graph) -> None:
        for name, value in fields.items():
            if isinstance(value, list):
                graph.block[0].node[0].ClearField(name)  # type: ignore[arg-type]
                getattr(graph.block[0].node[0], name).extend(value)
            else:
                setattr(graph.block[0].node[0], name, value)

    return change


def constant(**fields: object) -> Change:
    return lambda graph: graph.constant.add(**{"name": "c", "dtype": "float32", **fields})  # type: ignore[arg-type]


WRONG: dict[str, Change] = {
    "ops that nothing here computes\n.*\n.*got: +os.system, rm": lambda g: g.op.extend(["os.system", "rm"]),
    "a dtype that no value can have": lambda g: g.dtype.append("1000000000000f8"),
    "a module's path is not plain": lambda g: g.module.append("model/../../etc"),
    "a module's path is not plain ": lambda g: g.module.append("\x1b[2Jmodel"),
    "a module's path is not plain  ": lambda g: g.module.append("m" * 10_000),
    "a module's path is not plain   ": lambda g: g.module.append("{layer}" * 40),
    "a line of source is not plain": lambda g: g.line.add(file="../../secrets.py", number=1, function="f"),
    "a line of source is not plain ": lambda g: g.line.add(file="a.py", number=0, function="f"),
    "a line of source is not plain  ": lambda g: g.line.add(file="a.py", number=1, function="\n"),
    "a call's layer is no number": lambda g: setattr(g.call[1], "layer", "0/../.."),
    "a call is of a block that is not there": lambda g: setattr(g.call[1], "block", 99),
    "another number of arguments than its block": lambda g: g.call[1].argument.append(0),
    "gives out what it does not make ": lambda g: setattr(g.block[1], "inputs", 4_000_000_000),
    "call 1 reads a value that is not made before it": lambda g: g.call[1].argument.__setitem__(0, 4_000_000_000),
    "has a op that is not there": first_node(op=4_000_000_000),
    "has a dtype that is not there": first_node(dtype=99),
    "has a module that is not there": first_node(module=99),
    "has a line that is not there": first_node(line=[99]),
    "node 0 of block 0 reads a value that is not made": first_node(operand=[pb.Operand(value=1)]),
    "reads a value that is not made before it": lambda g: (
        g.block.add().node.add().operand.add(value=0),
        g.call.add(block=len(g.block) - 1),
    ),
    "has an operand of no kind": first_node(operand=[pb.Operand()]),
    "operands of wrong names": first_node(named=[pb.NamedOperand(name="x", operand=pb.Operand(flag=True))] * 2),
    "operands of wrong names ": first_node(named=[pb.NamedOperand(name="x y", operand=pb.Operand(flag=True))]),
    "makes too much": first_node(shape=[1_000_001, 1_000_001]),
    "too many dimensions": first_node(shape=[2] * 33),
    "block 0 gives out what it does not make": lambda g: g.block[0].output.append(0),
    "gives out what it does not make": lambda g: g.block[0].output.append(g.block[0].output[0]),
    "it is too large\n.*\n.*got: +1001": many_calls,
    "it is too large": many_operands,
    "do not fit its shape": constant(shape=[3], data=bytes(8)),
    "do not fit its shape ": constant(shape=[10**12], data=bytes(8)),
    "do not fit its shape  ": constant(shape=[1 << 63, 1 << 63], data=b""),
    "has no dtype or shape that can be": constant(dtype="V1000000"),
    "has no dtype or shape that can be ": constant(shape=[1] * 33, data=bytes(4)),
    "neither 0 nor 1": constant(dtype="bool", shape=[1], data=b"\x02"),
    "is impossible": constant(shape=[0, 1 << 63, 1 << 63], data=b""),
    "an input, parameter or constant stands there twice": lambda g: g.input.add(name="half"),
    "an input, parameter or constant has a name": lambda g: g.parameter.add(name="../w"),
    "a piece of a parameter has a name": lambda g: g.parameter[0].piece.append("../../w"),
    "a tap has a name that is not plain": lambda g: g.tap.add(name="..", value=0),
    "a tap stands there twice": lambda g: g.tap.add(name="y", value=0),
    "the tap z is no value of it": lambda g: g.tap.add(name="z", value=4_000_000_000),
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_graph_that_cannot_be_is_one_sentence(rule: str) -> None:
    graph = message()
    WRONG[rule](graph)
    with pytest.raises(ParityError, match=rule.strip()) as caught:
        graph_of(pb.Graph.FromString(graph.SerializeToString()), "g.pb")
    text = str(caught.value)
    assert text.startswith("g.pb: ") and len(text) < 1000 and "\x1b" not in text


def test_the_graph_that_they_are_made_of_is_read() -> None:
    assert len(graph_of(message(), "g.pb").nodes) == len(message().block[0].node) + 3 * len(message().block[1].node) + 1


@settings(max_examples=100)
@given(st.data())
def test_a_graph_with_bytes_changed_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(message().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    changed = pb.Graph()
    try:
        changed.ParseFromString(bytes(content))
    except Exception:  # no message at all: the reader of files says so
        return
    arrays = {"x": np.ones((2, 4)), **{f"model.layers.{number}.w": np.ones(4) for number in range(3)}}
    try:
        graph = graph_of(changed, "g.pb")
        with computing("g.pb"):
            graph.run(leaf_values(graph, arrays, "g.pb"))
    except ParityError as error:
        assert str(error).startswith("g.pb: ")


def running(op: str, *operands: object, gives: str = "float32", dimensions: int = 1, **named: object) -> pb.Graph:
    """One node on an input `x`; operands are values by "x", sizes, numbers, words and lists of them."""
    graph = pb.Graph(op=[op], dtype=[gives], module=["model.mlp"], input=[pb.GraphLeaf(name="x")])
    graph.line.add(file="modeling_tiny.py", number=7, function="forward")
    block = graph.block.add(inputs=1, output=[1])
    node = block.node.add(shape=[0] * dimensions, line=[0])
    node.operand.extend(map(operand, operands))
    for name, value in named.items():
        node.named.add(name=name, operand=operand(value))
    graph.call.add(block=0, argument=[0])
    return graph


def operand(value: object) -> pb.Operand:
    if isinstance(value, list):
        return pb.Operand(list=pb.Operands(item=map(operand, value)))
    if isinstance(value, int | float):
        return pb.Operand(**{"flag" if value is True else "number" if isinstance(value, float) else "integer": value})
    return pb.Operand(value=0) if value == "x" else pb.Operand(text=str(value))


HUGE = 10**12
LARGE = [
    running("full.default", [HUGE], 1.0),
    running("zeros.default", [10**6, 10**6], dimensions=2),
    running("ones.default", [HUGE]),
    running("new_zeros.default", "x", [HUGE]),
    running("new_full.default", "x", [10**5, 10**7], 0, dimensions=2),
    running("arange.default", HUGE),
    running("arange.start_step", 0.0, 1.0, 1e-12),
    running("eye.default", 10**6, dimensions=2),
    running("repeat.default", "x", [HUGE]),
    running("repeat_interleave.self_int", "x", HUGE),
    running("expand.default", "x", [10**9, 4], dimensions=2),
    running("constant_pad_nd.default", "x", [HUGE, 0]),
    running("pad.default", "x", [0, HUGE]),
    running("topk.default", "x", HUGE, gives=""),
    running("einsum.default", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p->abcdefghijklmnop", ["x"] * 16, dimensions=16),
    running("conv1d.default", "x", "x", "x", [1], [HUGE]),
    running("size_mul", 1 << 62, 4, gives=""),
]


@pytest.mark.parametrize("graph", LARGE, ids=lambda graph: graph.op[0])
def test_what_would_allocate_is_refused_before_it_does(graph: pb.Graph) -> None:
    sizes = graph.op[0].startswith("size")
    refused_at_run(graph, "neither a size nor" if sizes else "are the most")


STRANGE = {
    "fewer operands": running("matmul.default", "x"),
    "more operands": running("linear.default", "x", "x", "x", "x", "x"),
    "an unknown name": running("softmax.int", "x", 0, colour=1),
    "a word for a value": running("add.Tensor", "boom", "x"),
    "a list for a value": running("add.Tensor", "x", [1] * 4, alpha=HUGE),
    "a list for a bias": running("addmm.default", [1.0], "x", "x", beta=HUGE),
    "a size of a list": running("size_mul", [1, 2], 10**9, gives=""),
    "a size of a word": running("size_mul", "boom", 10**9, gives=""),
    "a half for a size": running("ones.default", [2.5]),
    "a dtype of any size": running("zeros.default", [2], dtype="(1000000000,)f8"),
    "a dtype that is a list": running("zeros.default", [2], dtype=["f8"]),
    "somewhere to write": running("neg.default", "x", "x"),
    "somewhere to write by name": running("exp.default", "x", out="x"),
    "an index that is no value": running("index.Tensor", "x", [[0] * 1000]),
    "an axis that is not there": running("sum.dim_IntList", "x", [5]),
    "a shape that does not fit": running("view.default", "x", [5]),
    "a division by no step": running("arange.start_step", 0, 5, 0),
    "one of no results": running("getitem", "x", 0),
    "a tensor for a size": running("neg.default", "x", gives=""),
    "a size for a tensor": running("sym_size.int", "x", 0),
    "a number beyond 64 bits": running("pow.Tensor_Scalar", 1 << 62, 2, dimensions=0),
    "NaN for a count": running("arange.default", float("nan")),
}


SAYS = {
    "a list for a value": "a list where a value is meant",
    "a dtype of any size": "no dtype of a graph",
    "somewhere to write": "it takes 1 operands without names",
    "somewhere to write by name": "it takes 1 operands without names",
    "a size of a word": "a size is made of sizes alone",
    "a number beyond 64 bits": "its result is no tensor of numbers",
}
"""What would be refused by luck alone, because NumPy, or the memory, does not go along."""


@pytest.mark.parametrize("kind", STRANGE)
def test_operands_that_an_op_does_not_take_are_one_sentence_with_op_module_and_line(kind: str) -> None:
    refused_at_run(STRANGE[kind], SAYS.get(kind, ""))


def refused_at_run(message: pb.Graph, says: str = "") -> None:
    graph = graph_of(message, "g.pb")
    x = np.ones((1, 1, 4) if message.op[0].startswith("conv") else 4)
    with pytest.raises(ParityError, match="an op of the graph cannot be computed") as caught, computing("g.pb"):
        graph.run(leaf_values(graph, {"x": x}, "g.pb"))
    got = caught.value.got
    assert got.startswith(f"{message.op[0]} in model.mlp, modeling_tiny.py:7: ") and says in got, got
    assert caught.value.next_step


def test_a_run_that_keeps_too_much_is_refused_and_views_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(message(), "g.pb")
    arrays = {"x": np.ones((2, 4)), **{name: np.ones(4) for name in graph.parameters}}
    values = graph.run(leaf_values(graph, arrays, "g.pb"))
    whole = [number for number, node in enumerate(graph.nodes, len(graph.leaves)) if node.op != "unsqueeze.default"]
    size = sum(values[number].nbytes for number in whole)
    monkeypatch.setattr("qwen3_spec.graph.TOTAL", size + 8)  # and the constant that the view is of
    graph.run(leaf_values(graph, arrays, "g.pb"))
    monkeypatch.setattr("qwen3_spec.graph.TOTAL", size - 1)
    says = rf"neg\.default in the model, .*the run keeps more than {size - 1} bytes"
    with pytest.raises(ParityError, match=says), computing("g.pb"):
        graph.run(leaf_values(graph, arrays, "g.pb"))


def test_an_input_that_is_not_there_is_named() -> None:
    graph = graph_of(message(), "g.pb")
    with pytest.raises(ParityError, match=r"expected: x, model\.layers\.0\.w"):
        leaf_values(graph, {}, "g.pb")
