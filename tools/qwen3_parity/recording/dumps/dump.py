"""What a dump is, whatever its format: named arrays in the order of their forwards, none of them loaded yet."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qwen3_golden import Array, ParityError, pb
from qwen3_golden.errors import printable

MAX_ARRAYS = 100_000
"""More arrays than a dump of any case has: a file that says it holds more is refused."""
_NEXT = "write the dump again, or leave this file out of the folder"


@dataclass(frozen=True)
class Dumped:
    """One array of a dump: `name` as the dump has it, `forward` sorts the calls of the model.

    `load` gives the elements, bfloat16 as uint16 bits; only an array that is wanted is ever loaded.
    """

    name: str
    shape: tuple[int, ...]
    dtype: pb.DType
    load: Callable[[], Array]
    file: Path
    forward: int = 0


@dataclass(frozen=True)
class Dump:
    """The arrays of a file or a folder, and what wrote it ("safetensors", "SGLang", …)."""

    path: Path
    kind: str
    arrays: Sequence[Dumped]


def shown(name: str) -> str:
    """A name out of somebody's file, on one line and without anything that a terminal would obey."""
    text = printable(name).replace("\n", "\\n")
    return text if len(text) <= 120 else f"{text[:119]}…"


def refused(where: object, rule: str, expected: object, got: object, next_step: str = _NEXT) -> ParityError:
    """The error of a dump that is not what it should be; names out of it stay on their line."""
    place, rule, expected_text, got_text = (str(value).replace("\n", "\\n") for value in (where, rule, expected, got))
    return ParityError(place, rule, expected=expected_text, got=got_text, next_step=next_step)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What the disk refuses becomes a `ParityError`; those of the readers of checkpoints speak of a dump."""
    try:
        yield
    except OSError as error:
        raise refused(path, "the file cannot be read", "a regular file", error.strerror or error) from None
    except ParityError as error:
        raise refused(error.where, error.rule, error.expected, error.got) from None


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts names with their numbers by value: step2 before step10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def files(folder: Path, ending: str) -> list[Path]:
    """The files of a folder with this ending, numbers by value; what is no regular file is left to who opens it."""
    return sorted((path for path in listed(folder) if path.name.endswith(ending)), key=lambda path: natural(path.name))


def listed(folder: Path) -> list[Path]:
    """What a folder holds, by name; raises `ParityError` for one that cannot be read or is endless."""
    with reading(folder):
        names = list[Path]()
        for path in folder.iterdir():
            names.append(path)
            if len(names) > MAX_ARRAYS:
                raise refused(folder, "the folder has more files than any dump", f"at most {MAX_ARRAYS}", "more")
    return sorted(names)


def is_folder(path: Path) -> bool:
    """Whether this is a folder, and not a link to one."""
    return stat.S_ISDIR(path.lstat().st_mode)


def by_forward(groups: Iterable[Sequence[Dumped]]) -> list[Dumped]:
    """The arrays of several files: one forward a file where they name the same things, and one in all elsewhere."""
    every = [list(group) for group in groups]
    names = [dumped.name for group in every for dumped in group]
    if len(names) > MAX_ARRAYS:
        raise refused("the dump", "it has more arrays than any case", f"at most {MAX_ARRAYS}", len(names))
    if len(set(names)) == len(names):
        return [dumped for group in every for dumped in group]
    return [
        Dumped(dumped.name, dumped.shape, dumped.dtype, dumped.load, dumped.file, forward)
        for forward, group in enumerate(every)
        for dumped in group
    ]
