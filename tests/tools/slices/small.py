"""A router, two experts and a norm as a golden of mode GRAPH, by hand, and a candidate that computes it in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from qwen3_golden import Array, Recording, pb, tensor
from qwen3_golden.recording import plain_provenance
from qwen3_reference.graph.floors import floors as drawn_floors
from qwen3_reference.graph.stored import message_of
from qwen3_spec.graph import Graph, Line, Node, Ref

WIDTH, EXPERTS, CHOSEN, ROWS, LENGTH = 16, 6, 2, 2, 5
Values = dict[str, Array]
"""Values by the names of taps."""
Change = Callable[[Values], Values | None]
"""Wrong or other values of some taps, from what stands before them; None: not here."""


def _node(op: str, *operands: Any, module: str, line: int, shape: tuple[int | None, ...], **more: Any) -> Node:
    return Node(op, operands, {}, more.get("dtype", "float32"), shape, module, (Line("modeling.py", line, "forward"),))


_TOKENS, _LOGITS = (None, None, WIDTH), (None, None, EXPERTS)
_PICKED = (None, None, CHOSEN)
_NODES = (
    _node("embedding.default", Ref(2), Ref(0), module="embed", line=1, shape=_TOKENS),  # 6
    _node("linear.default", Ref(6), Ref(3), module="layers.0.gate", line=2, shape=_LOGITS),  # 7
    _node("softmax.int", Ref(7), -1, module="layers.0.gate", line=3, shape=_LOGITS),  # 8
    _node("topk.default", Ref(8), CHOSEN, -1, module="layers.0.gate", line=4, shape=(), dtype=""),  # 9
    _node("getitem", Ref(9), 0, module="layers.0.gate", line=4, shape=_PICKED),  # 10
    _node("getitem", Ref(9), 1, module="layers.0.gate", line=4, shape=_PICKED, dtype="int64"),  # 11
    _node("index.Tensor", Ref(4), (Ref(11),), module="layers.0.experts", line=5, shape=(*_PICKED, WIDTH)),  # 12
    _node("unsqueeze.default", Ref(10), -1, module="layers.0.experts", line=6, shape=(*_PICKED, 1)),  # 13
    _node("mul.Tensor", Ref(12), Ref(13), module="layers.0.experts", line=6, shape=(*_PICKED, WIDTH)),  # 14
    _node("sum.dim_IntList", Ref(14), (2,), module="layers.0.experts", line=7, shape=_TOKENS),  # 15
    _node("add.Tensor", Ref(6), Ref(15), module="layers.0", line=8, shape=_TOKENS),  # 16
    _node("linear.default", Ref(16), Ref(5), module="head", line=9, shape=_TOKENS),  # 17
)
_TAPS = {
    "embed": 6,
    "layers.0.gate": 7,
    "layers.0.gate[1]": 10,
    "layers.0.gate[2]": 11,
    "layers.0.experts": 15,
    "layers.0": 16,
    "logits": 17,
}
PARAMETERS = ("embed.weight", "layers.0.gate.weight", "layers.0.experts.weight", "head.weight")


def weights(seed: int = 0) -> dict[str, Array]:
    rng = np.random.Generator(np.random.PCG64(seed))
    shapes = ((20, WIDTH), (EXPERTS, WIDTH), (EXPERTS, WIDTH), (WIDTH, WIDTH))
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in zip(PARAMETERS, shapes, strict=True)}


def graph() -> Graph:
    """The network; the mask is an input that nothing reads."""
    return Graph(("input_ids", "attention_mask"), PARAMETERS, {}, _NODES, {(n, 0): v for n, v in _TAPS.items()})


def run(change: Mapping[str, Change], parameters: Mapping[str, Array] | None = None) -> Values:
    """float32 by NumPy, each tap changed as `change` says."""
    tensors = parameters or weights()
    values: Values = {}

    def tap(name: str, value: Array) -> Array:
        values[name] = value
        if name in change and (replaced := change[name](dict(values))) is not None:
            values.update(replaced)
        return values[name]

    ids, _ = inputs().values()
    x = tap("embed", tensors["embed.weight"][ids])
    scores = tap("layers.0.gate", x @ tensors["layers.0.gate.weight"].T)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    probs = powers / powers.sum(-1, keepdims=True)
    values["layers.0.gate[2]"] = np.argsort(-probs, -1, kind="stable")[..., :CHOSEN]
    picked = tap("layers.0.gate[2]", values["layers.0.gate[2]"])
    values["layers.0.gate[1]"] = np.take_along_axis(probs, np.clip(picked, 0, EXPERTS - 1), -1)
    parts = tap("layers.0.gate[1]", values["layers.0.gate[1]"])
    rows = tensors["layers.0.experts.weight"][np.clip(picked, 0, EXPERTS - 1)]
    mixed = tap("layers.0.experts", (rows * parts[..., None]).sum(2))
    y = tap("layers.0", x + mixed)
    tap("logits", y @ tensors["head.weight"].T)
    return values


def inputs() -> dict[str, Array]:
    ids = np.random.Generator(np.random.PCG64(1)).integers(0, 20, (ROWS, LENGTH))
    mask = np.ones((ROWS, LENGTH), np.int64)
    mask[1, :2] = 0
    return {"input_ids": ids, "attention_mask": mask}


def recording(values: Values, producer: str, floors: Mapping[str, pb.Floor] | None = None) -> Recording:
    """A golden, with `floors` by tap, or a candidate without."""
    tensors = [tensor(f"input.{n}", array, axes=("batch", "query"), op="input") for n, array in inputs().items()]
    for name in sorted(values, key=list(_TAPS).index):
        item = tensor(name, np.ascontiguousarray(values[name]), axes=("batch", "query", "channel"))
        if floors and name in floors:
            item.info.floor.CopyFrom(floors[name])
        tensors.append(item)
    case = pb.Case(name="small", mode=pb.GRAPH, steps=[LENGTH])
    run_ = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER if floors else pb.FOREIGN)
    message = message_of(graph(), "Small", "{}") if floors else pb.Graph()
    return Recording(case, plain_provenance(producer), run_, tensors, graph=message)


@cache
def golden() -> Recording:
    values = run({})
    bare = recording(values, "qwen3_reference", {"logits": pb.Floor()})
    return recording(values, "qwen3_reference", {key[0]: floor for key, floor in measured(bare).items()})


def measured(bare: Recording) -> dict[tuple[str, int], pb.Floor]:
    return drawn_floors(graph(), {**inputs(), **weights()}, bare)
