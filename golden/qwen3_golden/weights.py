"""An exported checkpoint: a folder of recordings of mode WEIGHTS that belong together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError
from qwen3_golden.probe import probe
from qwen3_golden.reader import read, verify
from qwen3_golden.recording import Recording
from qwen3_golden.weight_axes import axis_sizes, weight_axes

_PART = re.compile(r"weights-(\d{5})-of-(\d{5})\.pb")
_AGAIN = "copy the folder again, or export the checkpoint again: qwen3-parity weights export --model"


def part_name(part: int, parts: int) -> str:
    """The file of part `part` (from 1) of `parts`."""
    return f"weights-{part:05}-of-{parts:05}.pb"


def is_exported(directory: Path) -> bool:
    """Whether a folder holds parts of an exported checkpoint, and no config.json that makes it Hugging Face's."""
    if not directory.is_dir() or (directory / "config.json").is_file():
        return False
    return any(_PART.fullmatch(path.name) for path in directory.iterdir())


def _refuse(where: object, rule: str, expected: object, got: object) -> NoReturn:
    raise ParityError(where, rule, expected=expected, got=got, next_step=_AGAIN)


def read_parts(directory: Path) -> list[Recording]:
    """The parts of an exported checkpoint in order, mapped into memory.

    Raises `ParityError` for a part that is missing, damaged, misnamed, or of another checkpoint. The tensors are not
    hashed: see `verify_weights`.
    """
    paths = {path.name: path for path in sorted(directory.glob("weights-*.pb")) if _PART.fullmatch(path.name)}
    if not paths:
        _refuse(directory, "there is no exported checkpoint here", part_name(1, 1), "no such file")
    total = int(next(iter(paths))[-8:-3])
    names = [part_name(number, total) for number in range(1, total + 1)]
    if extra := sorted(paths.keys() - set(names)):
        _refuse(directory, "there are parts of another checkpoint", f"{total} parts", "also " + ", ".join(extra))
    if missing := [name for name in names if name not in paths]:
        _refuse(directory, "parts are missing", f"{total} parts", "no " + ", ".join(missing))
    parts = [read(paths[name]) for name in names]
    places = [place.name for place in parts[0].weights.place]
    if places != sorted(set(places)):
        _refuse(parts[0].source, "the places are not one for each tensor", "names, sorted, each once", "others")
    for number, part in enumerate(parts, 1):
        _check_part(part, number, parts)
    return parts


def _check_part(part: Recording, number: int, parts: Sequence[Recording]) -> None:
    """One part says of itself, and of the whole, what the first one says."""
    where, weights, first = part.source, part.weights, parts[0]
    if part.case.mode != pb.WEIGHTS:
        _refuse(where, "this is no part of a checkpoint", "mode WEIGHTS", pb.Mode.Name(part.case.mode))
    if (weights.part, weights.parts) != (number, len(parts)):
        got = f"part {weights.part} of {weights.parts}"
        _refuse(where, "the file's name is not its own", f"part {number} of {len(parts)}", got)
    if part.case.checkpoint != first.case.checkpoint or len(part.case.checkpoint) != 1:
        expected, got = (", ".join(c.sha256.hex() for c in piece.case.checkpoint) or "none" for piece in (first, part))
        _refuse(where, "this part is of another checkpoint", f"one checkpoint, {expected}", got)
    if part.case != first.case:
        _refuse(where, "the parts disagree about the case", "the case of part 1", "another name or configuration")
    if list(weights.place) != list(first.weights.place):
        _refuse(where, "the parts disagree about where tensors are", "the places of part 1", "another list")
    _check_places(part, {place.name: bytes(place.sha256) for place in weights.place if place.part == number})
    if number > 1 and weights.file:
        _refuse(where, "only part 1 lists the files", "no file", ", ".join(file.name for file in weights.file))


def _check_places(part: Recording, places: Mapping[str, bytes]) -> None:
    """A part holds the tensors of its places, which are digests by name, and no others."""
    held = Counter(item.info.name for item in part)
    if wrong := sorted(places.keys() ^ held.keys()) + [name for name, count in held.items() if count > 1]:
        expected = "each tensor once, in its part"
        _refuse(part.source, "its tensors are not those of its places", expected, ", ".join(wrong))
    for item in part:
        if places[item.info.name] != bytes(item.info.sha256):
            _refuse(part.source, f"{item.info.name} is not the tensor of its place", "equal SHA-256", "another")


def verify_weights(part: Recording) -> None:
    """Hash every tensor of a part, compute its probe again, and hold its axes and shape against the configuration.

    Raises `ParityError` for a tensor that was changed, that the network does not have, or that is not laid out as the
    file says.
    """
    config = part.case.config
    if config.num_hidden_layers > len(part.weights.place):
        got = f"{len(part.weights.place)} tensors"
        _refuse(part.source, "a layer without tensors", f"tensors of {config.num_hidden_layers} layers", got)
    axes, sizes = weight_axes(config), axis_sizes(config)
    for item in part:
        info, where = item.info, f"{part.source}: {item.info.name}"
        if info.name not in axes:
            _refuse(where, "the network does not have this tensor", f"one of {len(axes)} names", info.name)
        if tuple(info.axes) != axes[info.name]:
            _refuse(where, "its axes are not those of this tensor", list(axes[info.name]), list(info.axes))
        shape = [sizes[axis] for axis in info.axes]
        if list(info.shape) != shape:
            _refuse(
                where, "its shape disagrees with the configuration", f"{list(info.axes)} = {shape}", list(info.shape)
            )
        if not info.sha256:
            _refuse(where, "it has no digest", "SHA-256 of its bytes", "none")
    verify(part)
    for item in part:
        probed = probe(item.array, item.info.dtype)
        if not probed.agrees(item.info.probe):
            where = f"{part.source}: {item.info.name}"
            expected = f"probe {probed.value:.17g} of [{', '.join(item.info.axes)}], within 1e-9 of {probed.scale:.3g}"
            _refuse(where, "it is not laid out as its axes say", expected, f"{item.info.probe:.17g}")
