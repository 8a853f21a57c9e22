"""Small graphs: drawn ones, that need not run, and the message of one that can, for tests that change it."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from qwen3_golden import pb
from qwen3_reference.graph.stored import message_of
from qwen3_spec.aten import KERNELS
from qwen3_spec.aten.numbers import DTYPES
from qwen3_spec.graph import Graph, Line, Node, Ref

WORDS = st.text("abcxyz_.é", min_size=1, max_size=8).filter(lambda name: ".." not in name)
MODULES = st.sampled_from(
    ["", "model", "model.norm", "lm_head"]
    + [f"model.layers.{number}{part}" for number in (0, 1, 2, 11) for part in ("", ".mlp", ".mlp.experts.0")]
)
STORED = ["float64", "float32", "int64", "int32", "int16", "uint8", "bool", "complex64"]
CONSTANTS = st.sampled_from(STORED).flatmap(
    lambda name: arrays.arrays(name, arrays.array_shapes(min_dims=0, max_side=3))
)
SHAPES = st.lists(st.none() | st.integers(0, 1000), max_size=3).map(tuple)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.just(-0.0)
)
LINES = st.lists(st.builds(Line, WORDS, st.integers(1, 9999), WORDS), max_size=2).map(tuple)


def _operands(count: int) -> st.SearchStrategy[Any]:
    operand = PLAIN | st.integers(0, count - 1).map(Ref) if count else PLAIN
    return st.recursive(operand, lambda parts: st.lists(parts, max_size=3).map(tuple), max_leaves=5)


@st.composite
def graphs(draw: Any) -> Graph:
    """A graph whose nodes are of the table's ops and read what stands before them; nothing else of them makes sense."""
    names = draw(st.lists(WORDS, max_size=6, unique=True))
    cuts = sorted(draw(st.tuples(*[st.integers(0, len(names))] * 2)))
    nodes = list[Node]()
    for number in range(draw(st.integers(0, 8))):
        operands = _operands(len(names) + number)
        nodes.append(
            Node(
                draw(st.sampled_from(sorted(KERNELS))),
                tuple(draw(st.lists(operands, max_size=3))),
                draw(st.dictionaries(st.sampled_from(["dtype", "alpha", "dim"]), operands, max_size=2)),
                draw(st.sampled_from(["", *sorted(DTYPES)])),
                draw(SHAPES),
                draw(MODULES),
                draw(LINES),
            )
        )
    count = len(names) + len(nodes)
    keys = st.tuples(WORDS, st.integers(0, 3))
    taps = draw(st.dictionaries(keys, st.integers(0, count - 1), max_size=4)) if count else {}
    constants = {name: draw(CONSTANTS) for name in names[cuts[1] :]}
    return Graph(tuple(names[: cuts[0]]), tuple(names[cuts[0] : cuts[1]]), constants, tuple(nodes), taps)


def layered(count: int = 3) -> Graph:
    """`count` equal layers `x + half(sin(x w))`; layer 0 alone puts an axis into the table that all of them read."""
    inputs, parameters = ("x",), tuple(f"model.layers.{number}.w" for number in range(count))
    first, hidden, nodes = 2 + count, 0, list[Node]()

    def add(op: str, module: str, line: int, *operands: Any, shape: tuple[int | None, ...] = (None, 4)) -> Ref:
        nodes.append(Node(op, operands, {}, "float32", shape, module, (Line("modeling_tiny.py", line, "forward"),)))
        return Ref(first + len(nodes) - 1)

    half = Ref(1 + count)
    state, wide = Ref(hidden), None
    for number in range(count):
        module = f"model.layers.{number}"
        wide = wide or add("unsqueeze.default", module, 3, half, 0, shape=(1,))
        product = add("mul.Tensor", f"{module}.mlp", 5, state, Ref(1 + number))
        bent = add("sin.default", f"{module}.mlp", 6, product)
        state = add("add.Tensor", module, 7, state, add("mul.Tensor", module, 7, bent, wide))
    last = add("neg.default", "", 9, state)
    return Graph(inputs, parameters, {"half": np.array(0.5, "f4")}, tuple(nodes), {("y", 0): last.value})


def message(count: int = 3) -> pb.Graph:
    """The message of `layered`."""
    return message_of(layered(count), "TinyModel", "{}")
