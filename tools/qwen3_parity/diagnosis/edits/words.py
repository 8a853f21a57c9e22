"""Names of values and numbers in what an edit says."""

from __future__ import annotations

from qwen3_parity.diagnosis.edits.edit import Site
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_spec.graph import Line, Node


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


def line_of(node: Node | None) -> Line | None:
    """The line of source that runs an op."""
    return node.lines[-1] if node is not None and node.lines else None


def number(value: float) -> str:
    """A number as people write it."""
    return f"{value:.7g}"


def of_site(site: Site) -> str:
    """A parameter's or input's name with its layer open."""
    return site.op.removeprefix("model.")
