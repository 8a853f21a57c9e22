"""What names the same op wherever its line runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwen3_parity.diagnosis.edits.edit import Site, opened
from qwen3_spec.graph import Graph, Line, Node, Ref

OF_TORCH = frozenset(
    {
        *("linear.py", "sparse.py", "conv.py", "normalization.py", "activation.py", "module.py", "pytorch_utils.py"),
        "runtime_assert.py",  # sizes that torch reads while it exports
    }
)
"""Files of torch's own, and of modules like them: a line in them says nothing, the module's path does."""
ACTIVATIONS = "activations.py"
"""What an activation's line stands in, whoever calls it: a module of a layer, or a function of the head."""
_BY_INDEX = frozenset({"getitem", "select.int"})
"""Ops that are another one with another number."""
_ALONE, _LATER = "alone ", "later "
TAP = "tap"
"""What a site has for its file that is a tap by its name, in every step and layer."""


def site_of(node: Node, graph: Graph) -> Site:
    """The site of an op: steps, layers and calls of a function in which it is the same op have the same one."""
    line = node.lines[-1] if node.lines else None
    module = opened(node.module) if line is None or line.file in OF_TORCH else ""
    where = ("", 0) if line is None else (line.file, line.number)
    callers = node.lines[:-1] if where[0] == ACTIVATIONS else ()
    called = (f"called at {caller.file}:{caller.number}" for caller in callers)
    origins = (_origin(operand, node, line, graph) for operand in node.operands)
    return Site(*where, node.op, (*called, *origins), module)


def _origin(operand: Any, node: Node, line: Line | None, graph: Graph) -> str:
    """Where an operand comes from, as far as that is the same wherever the line runs: an op of the same function."""
    if isinstance(operand, Ref):  # before tuples: it is one
        maker = graph.node(operand.value)
        if operand.value in graph.states:  # the function made it in the step before
            return ""
        if maker is None:  # steps cut all inputs in one line
            return f"leaf {graph.inputs[operand.value]}" if operand.value < len(graph.inputs) else "leaf"
        last = maker.lines[-1] if maker.lines else None
        near = last is not None and line is not None and (last.file, last.function) == (line.file, line.function)
        near = near and opened(maker.module) == opened(node.module)  # every class has its forward
        return f"{maker.op}:{last.number}" if near and last is not None else ""
    if isinstance(operand, tuple):
        return "(" + ",".join(_origin(part, node, line, graph) for part in operand) + ")"
    return repr(operand) if node.op in _BY_INDEX and isinstance(operand, int) else ""


def of_line(site: Site, sites: Mapping[Site, list[int]]) -> list[int]:
    """The values of the one op of its kind in a site's line, which reads what another op makes: as the first layer."""
    if not site.file or site.op in _BY_INDEX:
        return []
    line = site._replace(operands=())
    alike = [values for each, values in sites.items() if each._replace(operands=()) == line]
    return alike[0] if len(alike) == 1 else []


def alone(site: Site, back: int) -> Site:
    """One of the places of a site alone, counted from the last, which is 1."""
    return site._replace(module=f"{_ALONE}{back} {site.module}")


def of_alone(site: Site) -> tuple[Site, int] | None:
    """The site and the place of one that is `alone`; None for any other."""
    if not site.module.startswith(_ALONE):
        return None
    back, _, module = site.module.removeprefix(_ALONE).partition(" ")
    return site._replace(module=module), int(back)


def later(site: Site, step: int) -> Site:
    """A site from a step on."""
    return site._replace(module=f"{_LATER}{step} {site.module}")


def of_later(site: Site) -> tuple[Site, int] | None:
    """The site and the step from which one is `later`; None for any other."""
    if not site.module.startswith(_LATER):
        return None
    step, _, module = site.module.removeprefix(_LATER).partition(" ")
    return site._replace(module=module), int(step)


def everywhere(site: Site) -> Site:
    """A site in every step."""
    from_step = of_later(site)
    return site if from_step is None else from_step[0]
