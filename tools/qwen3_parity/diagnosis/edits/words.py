"""Names of values and numbers in what an edit says."""

from __future__ import annotations

from qwen3_parity.diagnosis.edits.edit import Site
from qwen3_parity.diagnosis.edits.region import OF_TORCH, Region
from qwen3_spec.graph import Line

NOT_THE_MODELS = OF_TORCH | {"steps.py", "activations.py"}
"""Files whose lines say nothing of a model: torch's own modules, activations, the walk over the steps of a case."""
_FARTHEST = 6
"""Ops from a leaf to the line that is named for it."""


def short(op: str) -> str:
    """An op without its overload: "add.Tensor" is "add"."""
    return op.partition(".")[0].strip("_")


def named(region: Region, value: int) -> str:
    """A value in words: a parameter's or tap's name, else the op that makes it."""
    if value in region.names:
        return region.names[value].removeprefix("model.")
    node = region.network.graph.node(value)
    taps = region.tap_names.get(value)
    return taps or (short(node.op) if node is not None else "an input")


def line_of(region: Region, value: int) -> Line | None:
    """The line that runs an op, or reads a leaf: the nearest behind it that is the model's own, if any."""
    open_, seen = [value], {value}
    for _ in range(_FARTHEST):
        users = list[int]()
        for each in open_:
            node = region.node(each)
            line = node.lines[-1] if node is not None and node.lines else None
            if line is not None and line.file not in NOT_THE_MODELS:
                return line
            users += [user for user in region.users.get(each, ()) if user not in seen]
        seen.update(users)
        open_ = sorted(users)
    return None


def number(value: float) -> str:
    """A number as people write it."""
    return f"{value:.7g}"


def of_site(site: Site) -> str:
    """A parameter's or input's name with its layer open."""
    return site.op.removeprefix("model.")
