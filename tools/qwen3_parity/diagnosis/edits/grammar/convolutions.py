"""A convolution that reads other inputs: another distance between them, padding at another end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, short
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.graph import Node

_FARTHEST = 8
"""The largest dilation that is tried."""


def convolutions(region: Region) -> Iterator[Edit]:
    """Every convolution along time by another dilation, and with its inputs moved."""
    for site, places in reversed(region.sites.items()):
        node = region.node(places[0])
        if node is None or short(node.op) != "conv1d" or not all(_is_plain(part) for part in _numbers(node)):
            continue
        count, line = np.shape(region.base[node.reads[1]])[-1], line_of(region, places[0])
        _, _, dilation = (int(part[0]) for part in _numbers(node))
        for another in range(1, min(2 * dilation, _FARTHEST) + 1) if count > 1 else ():
            for anchor, words, rank in ((count - 1, "", PLAIN), (0, ", from the oldest on", RARE)):
                if another != dilation:
                    says = f"reads inputs of conv1d that stand {another} apart, not {dilation} (its dilation){words}"
                    change = _moved(another, anchor * (dilation - another))
                    yield Edit("edit.convolution", says, rank, {site: change}, line)
        for moved, words in _moves((count - 1) * dilation):
            yield Edit("edit.convolution", f"pads conv1d {words}", RARE, {site: _moved(dilation, moved)}, line)


def _moves(reach: int) -> Iterator[tuple[int, str]]:
    """How far its inputs may be moved that has so many before the newest, and how it is then padded."""
    if reach:
        yield reach, "at the end, not at the beginning: it reads what is ahead"
        yield -reach, "at the beginning, not at the end: it reads what is behind"
    if reach > 1 and reach % 2 == 0:
        yield reach // 2, "at both ends, not at the beginning alone: it reads what is ahead, too"
        yield -(reach // 2), "at the beginning alone, not at both ends"


def _numbers(node: Node) -> tuple[Any, Any, Any]:
    """The stride, the padding and the dilation."""
    stride, padding, dilation = ((*node.operands, None, None, None, None)[place] for place in (3, 4, 5))
    return stride or (1,), padding or (0,), dilation or (1,)


def _is_plain(part: Any) -> bool:
    return isinstance(part, tuple | list) and len(part) == 1 and isinstance(part[0], int)


def _moved(dilation: int, moved: int) -> Change:
    """The op on inputs so far dilation, which begin so many places later; zeros stand where there are none."""

    def change(call: Call) -> Any:
        assert call.node is not None
        (stride,), (padding,), _ = _numbers(call.node)
        x, weight, *more = call.operands
        bias, groups = (*more, None)[0], call.operands[6] if len(call.operands) > 6 else 1
        length = (np.shape(call.plain())[-1] - 1) * stride + (np.shape(weight)[-1] - 1) * dilation + 1
        before = max(padding - moved, 0)
        begin, after = before - padding + moved, max(moved - padding + length - x.shape[-1], 0)
        wide: Array = np.pad(x, [(0, 0), (0, 0), (before, after)])
        inputs = wide[..., begin : begin + length]
        return call.plain(inputs, weight, bias, (stride,), (0,), (dilation,), groups)

    return change
