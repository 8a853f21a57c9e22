"""A folder that is there whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qwen3_golden.errors import ParityError, unwritable
from qwen3_golden.whole import remove, temporary


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`, which takes its name at the end; whatever goes wrong, nothing of it stays.

    What a kill left, the next one for `path` removes.
    Raises `ParityError` when there is something at `path` already, an empty folder aside, and for a disk that does not
    take it all.
    """
    if path.is_symlink() or (path.exists() and not (path.is_dir() and not any(path.iterdir()))):
        raise ParityError(
            path,
            "there is something here already",
            expected="a folder that is empty, or does not exist yet",
            got="a folder with files" if path.is_dir() else "a file",
            next_step="choose another folder, or remove it first",
        )
    path = path.absolute()
    try:
        beside = temporary(path)
    except OSError as error:
        raise unwritable(path, "folder", error) from None
    try:
        beside.mkdir(parents=True)
        yield beside
        beside.replace(path)
    except OSError as error:
        raise unwritable(path, "folder", error) from None
    finally:
        remove(beside)
