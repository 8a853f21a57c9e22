"""Runs of a stored tensor's elements as pieces of a parameter: "attn.Wqkv.weight[600:1200]", of its flat elements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from qwen3_reference.checkpoints.stored import Stored

_RUN = re.compile(r"(?P<name>.+)\[(?P<begin>0|[1-9][0-9]{0,18}):(?P<end>[1-9][0-9]{0,18})\]", re.DOTALL)


def run_name(name: str, begin: int, end: int) -> str:
    """What the elements of a stored tensor from `begin` on, up to before `end`, are called as a piece."""
    return f"{name}[{begin}:{end}]"


def place_of(stored: Mapping[str, Stored], piece: str) -> tuple[str, int, int] | None:
    """The stored tensor that a piece is of, and where in its flat elements it begins and ends; None where it is none.

    A tensor's own name is the whole of it, whatever brackets it has.
    """
    if piece in stored:
        return piece, 0, stored[piece].bits.size
    run = _RUN.fullmatch(piece)
    if run is None or run["name"] not in stored:
        return None
    begin, end = int(run["begin"]), int(run["end"])
    return (run["name"], begin, end) if begin < end <= stored[run["name"]].bits.size else None


def piece_of(stored: Mapping[str, Stored], piece: str) -> Stored:
    """The elements that a piece stands for, as they are stored: a whole tensor in its shape, a run flat."""
    if piece in stored:
        return stored[piece]
    place = place_of(stored, piece)
    if place is None:
        raise KeyError(piece)
    name, begin, end = place
    return Stored(stored[name].dtype, stored[name].bits.reshape(-1)[begin:end], stored[name].file)


def overlap(stored: Mapping[str, Stored], pieces: Sequence[str]) -> bool:
    """Whether any element stands in two of these pieces, which are all there."""
    places = sorted(place for piece in pieces if (place := place_of(stored, piece)) is not None)
    return any(name == after and end > begin for (name, _, end), (after, begin, _) in pairwise(places))
