"""Values that an op of a region could read instead: recorded ones of its step, variables of its layer between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from qwen3_parity.diagnosis.edits.edit import numbers_of, opened
from qwen3_parity.diagnosis.edits.sites import ACTIVATIONS, OF_TORCH
from qwen3_parity.slices.network import Network
from qwen3_parity.slices.source import assigned
from qwen3_spec.graph import Node

NOT_THE_MODELS = OF_TORCH | {"steps.py", "hub_kernels.py", ACTIVATIONS}
"""Files whose lines say nothing of a model: torch's own, activations, the choice of a kernel, the walk over steps."""
_NEIGHBOURS = {0: "", -1: "the layer before's ", 1: "the layer behind's "}


def sources(
    network: Network, key: tuple[str, int], behind: Collection[int], inside: Collection[int], *, later: bool = False
) -> dict[str, int]:
    """Recorded values of a tap's step and variables of its layer that are not `behind` it, by name with layers open.

    Variables are none that are `inside`, which have names of their own. `later`: recorded values behind it as well,
    which somebody may have made before.
    """
    numbers, graph = numbers_of(key[0]), network.graph
    names = dict[str, int]()
    for name, value in _variables(network, key, numbers):
        if value not in inside and value not in behind:
            names[name] = value
    for (name, step), value in graph.taps.items():
        if step != key[1] or value not in network.slices.recorded or (value in behind and not later):
            continue
        for near, whose in _NEIGHBOURS.items():
            if len(numbers) == 1 and numbers_of(name) == (numbers[0] + near,):
                names[f"{whose}{opened(name)}"] = value
        if not numbers_of(name):
            names[name] = value
    return names


def _variables(network: Network, key: tuple[str, int], numbers: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    """What statements of a tap's layer and step give that is no tap, by name, in order."""
    graph, first = network.graph, len(network.graph.leaves)
    last = {step: max(v for (_, s), v in graph.taps.items() if s == step) for step in {s for _, s in graph.taps}}
    begin, taps = last.get(key[1] - 1, first - 1) + 1, {*graph.taps.values()}
    for value in range(max(begin, first), last[key[1]] + 1):
        node = graph.nodes[value - first]
        if not numbers or numbers_of(f"{node.module}.")[:1] != numbers[:1] or network.is_smallest(node.module):
            continue
        if node.dtype and value not in taps and _is_result(network, value):
            yield variable(network, value) or f"{node.op.partition('.')[0].strip('_')} of line {_line_of(node)}", value


def _is_result(network: Network, value: int) -> bool:
    """Whether the innermost statement of a model's own gives a value: no op of it reads that."""
    node = network.graph.node(value)
    if node is None or _line_of(node) == 0:
        return False
    users = network.users.get(value, {}).values()
    return all(user.module != node.module or _line_of(user) != _line_of(node) for user in users)


def _line_of(node: Node) -> int:
    return next((line.number for line in reversed(node.lines) if line.file not in NOT_THE_MODELS), 0)


def variable(network: Network, value: int) -> str:
    """The variable of the statement whose result a value is, as the innermost function that has one calls it."""
    node = network.graph.node(value)
    lines = () if node is None else node.lines
    place = (
        node.operands[1] if node is not None and node.op == "getitem" and isinstance(node.operands[1], int) else None
    )
    users = [
        user.lines for user in network.users.get(value, {}).values() if node is not None and user.module == node.module
    ]
    for count in range(len(lines), 0, -1):
        if any(user[:count] == lines[:count] for user in users):
            return ""  # the statement goes on
        if lines[count - 1].file not in NOT_THE_MODELS and (name := assigned(lines[count - 1], network.golden, place)):
            return name
    return ""
