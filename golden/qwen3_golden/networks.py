"""The networks as people write them, in golden/networks: their rows as taps, and where a stack of modules has each.

`python -m qwen3_golden.networks` writes taps.textproto, which is made from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from google.protobuf import text_format

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.taps import GOLDEN_ROOT, committed_text
from qwen3_golden.whole import change_together

NETWORKS = ("inputs", "qwen3_encoder", "qwen3_decoder", "pre_norm", "post_norm", "gradients", "generation")
"""The files of golden/networks, in the order of taps.textproto."""

TAPS = "taps.textproto"
_HEAD = """\
# proto-file: golden.proto
# proto-message: qwen3.golden.v1.TapTable
#
# Every place in the network that has a name, in network order. A recording names its tensors by these patterns with
# the layer filled in; {layer-1} is the layer before, {last} the last one. In `inputs`, "a|b" is a where the network has
# it and otherwise b (no QK-norm, no layer before, keys that are not rotated), and "a?" may be absent (no encoder).
#
# Made from golden/networks by python -m qwen3_golden.networks.
"""


@dataclass(frozen=True)
class Bound:
    """A row of a network whose tensor a module has: `module` is its path in the stack, "" the stack itself."""

    pattern: str
    module: str
    row: pb.Row

    @property
    def says(self) -> str:
        """Where the tensor is, in words."""
        row, module = self.row, self.module or "stack"
        if row.inside or row.buffer:
            return f"{module}: {row.inside} of its attention" if row.inside else f"{module}.{row.buffer}"
        end = row.WhichOneof("end") or "output"
        number = f" {getattr(row, end)}" if row.HasField("output") or row.argument else ""
        text = f"{module} {'input' if end == 'argument' else end}{number}"
        return f"{text}, for the encoder's states" if row.encoder_half else text


@cache
def blocks() -> tuple[pb.Block, ...]:
    """The blocks of every network, in network order; raises `ParityError` away from a clone of the repository."""
    texts = (committed_text(f"networks/{name}.textproto") for name in NETWORKS)
    return tuple(block for text in texts for block in text_format.Parse(text, pb.NetworkTable()).block)


def pattern(block: pb.Block, name: str) -> str:
    """A row's full name, or that of one of this block's that begins with a dot."""
    return f"{block.prefix}.{name.removeprefix('.')}" if block.prefix else name


@cache
def bound(stack: str) -> tuple[Bound, ...]:
    """The rows of a stack ("encoder", "pre_norm", …) that its modules have, in network order."""
    rows = ((block, row) for block in blocks() if block.prefix.partition(".")[0] == stack for row in block.row)
    return tuple(_bound(block, row) for block, row in rows if row.module)


def _bound(block: pb.Block, row: pb.Row) -> Bound:
    path = (block.prefix.partition(".")[2], row.module.strip("."))
    return Bound(pattern(block, row.name), ".".join(filter(None, path)), row)


def _absolute(block: pb.Block, name: str) -> str:
    """An input, of which each alternative may begin with a dot."""
    return "|".join(pattern(block, tap) if tap.startswith(".") else tap for tap in name.split("|"))


def _tap(block: pb.Block, row: pb.Row) -> pb.Tap:
    name = pattern(block, row.name)
    parameters = (_absolute(block, part) if "." in part else f"{name}.{part}" for part in row.parameters)
    return pb.Tap(
        pattern=name,
        op=row.op,
        inputs=[_absolute(block, tap) for tap in row.inputs],
        axes=row.axes or block.axes,
        parameters=parameters,
    )


@cache
def _words() -> dict[str, str]:
    """Where Hugging Face has each tap and each parameter that a module has."""
    stacks = dict.fromkeys(block.prefix.partition(".")[0] for block in blocks())
    every = [tap for stack in stacks for tap in bound(stack)]
    parameters = {f"{tap.pattern}.{name}": f"{tap.module}.{name}" for tap in every for name in tap.row.parameters}
    return parameters | {tap.pattern: tap.says for tap in every}


def _place(name: str, row: pb.Row) -> str:
    """Where Hugging Face has a tap, in words: as the row says it, by its module, or as the gradient of another one."""
    forward = _words().get(name.removeprefix("gradient."), "")
    return row.hf or (f"{forward}, its grad" if name.startswith("gradient.") else forward)


def _fields(tap: pb.Tap) -> Iterator[str]:
    yield f'pattern: "{tap.pattern}"'
    yield f'op: "{tap.op}"'
    for field in ("inputs", "axes", "parameters"):
        if values := ", ".join(f'"{value}"' for value in getattr(tap, field)):
            yield f"{field}: [{values}]"
    if tap.hf:
        yield f'hf: "{tap.hf}"'


def render() -> str:
    """taps.textproto, from the networks."""
    lines = [_HEAD]
    for block in blocks():
        lines += [f"\n# {line}\n" if number == 0 else f"# {line}\n" for number, line in enumerate(block.says)]
        for row in block.row:
            tap = _tap(block, row)
            tap.hf = _place(tap.pattern, row)
            lines += ["tap {\n", *(f"  {field}\n" for field in _fields(tap)), "}\n"]
    return "".join(lines)


if __name__ == "__main__":
    change_together(GOLDEN_ROOT, {TAPS: render()})
