"""The golden of other inputs, from a golden's graph alone: its truth in float64, its floors by draws, all by NumPy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qwen3_golden import Array, ParityError, Recording, Tensor, pb, tensor, to_bfloat16
from qwen3_golden.dtypes import NUMPY
from qwen3_golden.recording import plain_provenance
from qwen3_parity.slices.run import computing, leaf_values
from qwen3_parity.slices.stored import graph_of
from qwen3_reference.graph.floors import floors
from qwen3_spec.graph import Graph

INPUT = "input."
_FREE = ("batch", "query", "key", "row")
DRAWN = "drawn"
"""The flag of a golden that no model ran: from which golden's graph it is."""


def free_graph(golden: Recording) -> Graph:
    """The graph of a golden, whose numbers of rows and positions are free.

    Raises `ParityError` for a golden without a graph, one of several forwards, and one whose graph has fixed sizes.
    """
    if golden.case.mode != pb.GRAPH or not golden.graph.call:
        raise _fixed(golden, "a golden with a graph", "none")
    if len(golden.case.steps) != 1:
        raise _fixed(golden, "one forward", f"{len(golden.case.steps)} forwards")
    graph = graph_of(golden.graph, golden.source)
    for item in golden:
        node = graph.node(graph.taps.get(item.key, 0))
        for axis, size in zip(item.info.axes, () if node is None else node.shape, strict=False):
            if axis in _FREE and size is not None:
                raise _fixed(golden, f"any number in the {axis} axis of {item.info.name}", f"{size} alone")
    return graph


def _fixed(golden: Recording, expected: str, got: str) -> ParityError:
    return ParityError(
        golden.source,
        "no other case can be drawn from this golden: its graph is of this case's sizes",
        expected=expected,
        got=got,
        next_step="capture one forward without --steps, of a model whose sizes torch.export leaves free",
    )


def golden_of(
    golden: Recording, weights: Mapping[str, Array], inputs: Mapping[str, Array], name: str, seed: int = 0
) -> Recording:
    """What the graph of `golden` makes of other inputs: a case of one forward with every tap that `golden` has.

    `weights` and `inputs` are by the graph's names, inputs as the golden's are but for batch and length; `seed` is what
    they were drawn from. Raises `ParityError` as `free_graph`, for weights that are not there, and where an op cannot
    be computed.
    """
    graph = free_graph(golden)
    arrays = {**weights, **inputs}
    taps = [item for item in golden if item.key in graph.taps]
    with computing(golden.source):
        values = graph.run(leaf_values(graph, arrays, golden.source), graph.slice(graph.taps.values()))
        length = _length(golden, inputs)
        case = pb.Case(
            name=name,
            mode=pb.GRAPH,
            steps=[length],
            checkpoint=golden.case.checkpoint,
            attributes=golden.case.attributes,
            description=f"Drawn from the graph of {golden.case.name}.",
        )
        flags = [pb.Pair(key=DRAWN, value=f"from the graph of {golden.case.name}")]
        said = plain_provenance(golden.provenance.producer, threads=1, seed=seed, flags=flags)
        tensors = [_like(golden[f"{INPUT}{key}", 0], value) for key, value in inputs.items()]
        tensors += [_like(item, values[graph.taps[item.key]]) for item in taps]
        recording = Recording(case, said, golden.run, tensors, golden.parameters, graph=golden.graph)
        measured = floors(graph, arrays, recording)
    for item in tensors:
        if item.key in measured:
            item.info.floor.CopyFrom(measured[item.key])
    return recording


def _length(golden: Recording, inputs: Mapping[str, Array]) -> int:
    """How many positions of the inputs the forward decodes: those along the side that the case's step counts."""
    names = [f"{side}{kind}" for side in ("decoder_", "") for kind in ("input_ids", "inputs_embeds")]
    return int(inputs[next(name for name in names if name in inputs)].shape[1])


def _like(item: Tensor, value: Array) -> Tensor:
    """A value as a tap of another golden has it: its name, axes and dtype."""
    info = item.info
    if info.dtype == pb.BF16:
        array = to_bfloat16(np.asarray(value, np.float32))
    else:
        with np.errstate(over="ignore"):  # a mask's lowest number
            array = np.asarray(value).astype(NUMPY[info.dtype])
    return tensor(info.name, np.ascontiguousarray(array), step=info.step, dtype=info.dtype, axes=info.axes, op=info.op)
