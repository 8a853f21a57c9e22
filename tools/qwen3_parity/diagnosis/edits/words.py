"""Names of values and numbers in what an edit says."""

from __future__ import annotations

from qwen3_parity.diagnosis.edits.edit import Site
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import OF_TORCH
from qwen3_spec.graph import Line, Ref

NOT_THE_MODELS = OF_TORCH | {"steps.py", "activations.py"}
"""Files whose lines say nothing of a model: torch's own modules, activations, the walk over the steps of a case."""
_MOVING = frozenset({"view", "unsafe_view", "unsqueeze", "squeeze", "transpose", "expand", "to_copy", "clone"})
_FARTHEST = 6
"""Ops from a leaf to the line that is named for it."""


def short(op: str) -> str:
    """An op without its overload: "add.Tensor" is "add"."""
    return op.partition(".")[0].strip("_")


def named(region: Region, value: int) -> str:
    """A value in words: a parameter's or tap's name, else the op that makes it."""
    node, taps = region.network.graph.node(value), region.tap_names.get(value)
    while node is not None and not taps and short(node.op) in _MOVING and isinstance(node.operands[0], Ref):
        value = node.operands[0].value  # the same numbers in another shape
        node, taps = region.network.graph.node(value), region.tap_names.get(value)
    if value in region.names:
        return region.names[value].removeprefix("model.")
    return taps or (short(node.op) if node is not None else "an input")


def line_of(region: Region, value: int) -> Line | None:
    """The line that runs an op, or reads a leaf: the nearest behind it that is the model's own, if any."""
    open_, reached = [value], {value}
    for _ in range(_FARTHEST):
        users = list[int]()
        for each in open_:
            node = region.node(each)
            line = node.lines[-1] if node is not None and node.lines else None
            if line is not None and line.file not in NOT_THE_MODELS:
                return line
            users += [user for user in region.users.get(each, ()) if user not in reached]
        reached.update(users)
        open_ = sorted(users)
    return None


def caller_line(region: Region, end: int) -> Line | None:
    """The line that goes on with what a module gives: the nearest that stands outside of it; else the module's own."""
    graph = region.network.graph
    module = getattr(graph.node(end), "module", "")
    for node in graph.nodes[max(end - len(graph.leaves), 0) :]:
        line = node.lines[-1] if node.lines else None
        outside = node.module != module and not node.module.startswith(f"{module}.")
        if outside and end in node.reads and line is not None and line.file not in NOT_THE_MODELS:
            return line
    return line_of(region, end)


def number(value: float) -> str:
    """A number as people write it."""
    return f"{value:.7g}"


def of_site(site: Site) -> str:
    """A parameter's or input's name with its layer open."""
    return site.op.removeprefix("model.")
