"""An activation in the place of another: of one op, or of a module that is written in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.blocks import MODULE
from qwen3_parity.diagnosis.edits.edit import Block, Call, Change, Edit
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import caller_line, line_of, short
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.aten import Kind, Numbers, kernel_of
from qwen3_spec.aten.pointwise import gelu, relu, sigmoid, silu, softplus

Activation = Callable[[Numbers, Array], Array]
"""A function of each number by itself; in a draw its own steps round, and erf is as far off as torch's."""
ACTIVATIONS: Mapping[str, Activation] = {
    "nothing": lambda _, x: x,
    "silu": silu,
    "exact gelu": gelu,
    "gelu by tanh": lambda numbers, x: gelu(numbers, x, approximate="tanh"),
    "x · sigmoid(1.702 x)": lambda numbers, x: x * numbers.rounded(sigmoid(numbers, 1.702 * x)),
    "relu": lambda _, x: relu(x),
    "relu squared": lambda _, x: np.square(relu(x)),
    "sigmoid": sigmoid,
    "tanh": lambda _, x: np.tanh(x),
    "exp": lambda _, x: np.exp(x),
    "softplus": softplus,
    "hardswish": lambda _, x: x * np.clip(x + 3, 0, 6) / 6,
    "mish": lambda numbers, x: x * numbers.rounded(np.tanh(softplus(numbers, x))),
    "elu": lambda _, x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu twice": lambda numbers, x: silu(numbers, silu(numbers, x)),
}
"""By name."""
_OPS = frozenset({"silu", "gelu", "sigmoid", "tanh", "relu", "softplus"})
_TANH = "tanh"
_GATE = "sigmoid"
"""Times what it reads it is silu."""
_BY_ITSELF = frozenset({Kind.POINT, Kind.MOVE, Kind.CHOICE})
"""What ops of an activation are: each number by itself."""


def activations(region: Region) -> Iterator[Edit]:
    """Every activation with every sibling of it."""
    for site, places in reversed(region.sites.items()):
        op, node, line = short(site.op), region.node(places[0]), line_of(region, places[0])
        if node is None or op not in _OPS:
            continue
        name_of_op = f"{op} by {_TANH}" if _TANH in (*node.operands[1:2], node.named.get("approximate")) else op
        for name, function in ACTIVATIONS.items():
            yield Edit("edit.sibling", f"has {name} for {name_of_op}", PLAIN, {site: _of_operand(function)}, line)
        if op != _GATE:
            says = f"multiplies the result of {op} by what it reads"
            yield Edit("edit.added", says, RARE, {site: lambda call: call.plain() * call.operands[0]}, line)
    for site, every in region.blocks.items():
        if site.file == MODULE and _takes_each_number(region, every[-1]):
            line = caller_line(region, every[-1].end, site.op)
            for name, function in ACTIVATIONS.items():
                says = f"has {name} for what {site.op.removeprefix('model.')} computes"
                yield Edit("edit.sibling", says, PLAIN, {site: _of_block(function)}, line)
            says = f"multiplies the result of {site.op.removeprefix('model.')} by what it reads"
            yield Edit("edit.added", says, RARE, {site: _times_what_it_reads}, line)


def _takes_each_number(region: Region, block: Block) -> bool:
    """Whether a block has several ops, each of numbers by themselves, and reads nothing else but single numbers."""
    nodes = [node for value in block.values if (node := region.node(value)) is not None]
    kinds = [kernel.kind for node in nodes if (kernel := kernel_of(node.op)) is not None]
    beside = {read for node in nodes for read in node.reads} - {block.begin, *block.values}
    return (
        set(kinds) <= _BY_ITSELF
        and kinds.count(Kind.POINT) > 1
        and all(np.size(region.base[read]) == 1 for read in beside)
    )


def _of_operand(function: Activation) -> Change:
    return lambda call: function(call.numbers, call.operands[0])


def _times_what_it_reads(call: Call) -> Array:
    return np.asarray(call.plain() * call.env[call.region.block_of(call.value, call.site).begin])


def _of_block(function: Activation) -> Change:
    def change(call: Call) -> Array:
        return function(call.numbers, np.asarray(call.env[call.region.block_of(call.value, call.site).begin]))

    return change
