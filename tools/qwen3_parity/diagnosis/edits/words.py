"""Names of values and numbers in what an edit says."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from qwen3_parity.diagnosis.edits.edit import Site, Written, opened
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.sites import ACTIVATIONS, OF_TORCH
from qwen3_parity.diagnosis.edits.sources import NOT_THE_MODELS, variable
from qwen3_parity.slices.network import Network
from qwen3_parity.slices.source import operand
from qwen3_spec.graph import Line, Node, Ref

_MOVING = frozenset({"view", "unsafe_view", "unsqueeze", "squeeze", "transpose", "expand", "to_copy", "clone"})
_MODELS = "modeling_"
"""How the file of a model begins."""
_OPERATORS = {"add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_FARTHEST = 6
"""Ops from a leaf to the line that is named for it."""


def short(op: str) -> str:
    """An op without its overload: "add.Tensor" is "add"."""
    return op.partition(".")[0].strip("_")


def named(region: Region, value: int) -> str:
    """A value in words: a parameter's or tap's name, the source's variable, else the op that makes it."""
    return _known(region, value) or _op_of(region, value)


def called(region: Region, value: int, function: str = "forward") -> str:
    """As `named`; what another function than this one makes, and has no name, is called by it."""
    if known := _known(region, value):
        return known
    node = region.network.graph.node(_made_as(region, value)[-1])
    maker = node.lines[-1].function if node is not None and node.lines else "forward"
    return _op_of(region, value) if maker in ("forward", function) else f"what {maker} gives"


def read_as(region: Region, node: Node, slot: int) -> str:
    """The variable that the source has for an operand of a sum, a product or a quotient; else as `called`."""
    operator, line, side = _OPERATORS.get(short(node.op)), model_line(node), node.operands[slot]
    variable = "" if operator is None or line is None else operand(line, operator, slot, region.network.golden)
    return variable or (called(region, side.value) if isinstance(side, Ref) else number(side))


def _known(region: Region, value: int) -> str:
    """A parameter's, a tap's or a variable's name of a value, or of the same numbers in another shape; else empty."""
    for each in _made_as(region, value):
        if each in region.names:
            return opened(region.names[each].removeprefix("model."))
        name = opened(region.tap_names.get(each, "")) or variable(region.network, each)
        if name:
            return name
    return ""


def _op_of(region: Region, value: int) -> str:
    node = region.network.graph.node(_made_as(region, value)[-1])
    if node is None:
        return "an input"
    return _beside_a_number(region, node) or short(node.op)


def _beside_a_number(region: Region, node: Node) -> str:
    """A sum, product or quotient of a parameter and a number, as "1 + NAME"; empty for another op."""
    sign, reads = _SIGNS.get(short(node.op), ""), node.operands[:2]
    leaves = [each for read in node.reads for each in _made_as(region, read) if each in region.parameters]
    if not sign or len(leaves) != 1 or len(node.reads) != 1:
        return ""
    return f" {sign} ".join(_known(region, leaves[0]) if isinstance(read, Ref) else number(read) for read in reads)


def is_parameter(region: Region, value: int) -> bool:
    """Whether a value is a parameter, in whatever shape."""
    return not region.parameters.isdisjoint(_made_as(region, value))


def _made_as(region: Region, value: int) -> list[int]:
    """A value, and those with the same numbers before it was brought into its shape."""
    values, node = [value], region.network.graph.node(value)
    while node is not None and short(node.op) in _MOVING and isinstance(node.operands[0], Ref):
        values.append(node.operands[0].value)
        node = region.network.graph.node(values[-1])
    return values


def line_of(region: Region, value: int) -> Written | None:
    """The line that runs an op, or reads a leaf: the nearest behind it that is the model's own, if any."""
    open_, reached = [value], {value}
    for _ in range(_FARTHEST):
        users = list[int]()
        for each in open_:
            node = region.node(each)
            written = None if node is None else _written(node, region.network)
            if written is not None:
                return written
            users += [user for user in region.users.get(each, ()) if user not in reached]
        reached.update(users)
        open_ = sorted(users)
    return None


def read_line(region: Region, value: int, reads: int) -> Written | None:
    """As `line_of`; where an op reads what comes from outside of its module, with the line that calls that."""
    line, node, maker = line_of(region, value), region.node(value), region.network.graph.node(reads)
    module = "" if node is None else node.module
    if node is not None and node.lines and node.lines[-1].file in OF_TORCH:
        module = module.rpartition(".")[0]  # a projection's line is that of the module around it
    inside = maker is not None and f"{maker.module}.".startswith(f"{module}.")
    call = None if line is None or line.caller is not None or inside else region.network.call_of(module)
    return line if call is None or line is None or call == line.line else line._replace(caller=call)


def model_line(node: Node) -> Line | None:
    """The innermost line of an op that is the model's own; never one of torch's."""
    lines = _model_lines(node) or [line for line in node.lines if line.file not in OF_TORCH]
    return lines[-1] if lines else None


def _model_lines(node: Node) -> list[Line]:
    return [line for line in node.lines if line.file not in NOT_THE_MODELS]


def _written(node: Node, network: Network) -> Written | None:
    """The model's own line of an op, else the line that calls its module; None where neither is known."""
    lines = [*node.lines] if _is_formula(node, network) else _model_lines(node)
    call = network.call_of(node.module) if network.is_smallest(node.module) else None
    if not lines:
        return None if call is None else Written(call)
    return Written(lines[-1], _caller(lines) if len(lines) > 1 else call if call != lines[-1] else None)


def _is_formula(node: Node, network: Network) -> bool:
    """Whether an op is one of several that an activation is written with, whose lines say which."""
    if not node.lines or node.lines[-1].file != ACTIVATIONS:
        return False
    return len({line for line in network.lines[node.module] if line.file == ACTIVATIONS}) > 1


def _caller(lines: Sequence[Line]) -> Line:
    """The line that calls the innermost; of what models share, such as masks, the model's own that asks for it."""
    models = [line for line in lines[:-1] if line.file.startswith(_MODELS)]
    return lines[-2] if lines[-1].file.startswith(_MODELS) or not models else models[-1]


def recorded_line(region: Region, value: int) -> Written | None:
    """The line that calls the module which gives a recorded value, and the one that reads it; else that one alone."""
    reads, maker = line_of(region, value), region.network.graph.node(value)
    call = None if maker is None else region.network.call_of(maker.module)
    if call is None or reads is None or call == reads.line:
        return reads
    return Written(call, reader=reads.line)


def caller_line(region: Region, end: int, module: str = "") -> Written | None:
    """The line that calls a module, with numbers of layers open; else the nearest that goes on with what it gives.

    Without a `module` it is the one that gives a value; its own line where there is none behind it.
    """
    graph = region.network.graph
    path = getattr(graph.node(end), "module", "")
    path = ".".join(path.split(".")[: len(module.split("."))]) if module else path
    call = region.network.call_of(path)
    if call is not None:
        return Written(call)
    for node in graph.nodes[max(end - len(graph.leaves), 0) :]:
        outside = node.module != path and not node.module.startswith(f"{path}.")
        written = _written(node, region.network) if outside and end in node.reads else None
        if written is not None:
            return written
    return line_of(region, end)


def parameter_line(region: Region, value: int) -> Written | None:
    """The line that calls the module of a parameter; else the one that reads it."""
    call = region.network.call_of(region.names.get(value, "").rpartition(".")[0])
    return line_of(region, value) if call is None else Written(call)


def number(value: object) -> str:
    """A number as people write it."""
    return f"{value:.7g}" if isinstance(value, float) else f"{value}"


def of_site(site: Site) -> str:
    """A parameter's or input's name with its layer open."""
    return site.op.removeprefix("model.")
