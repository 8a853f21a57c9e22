"""Files that are written whole or not at all, and sets of files that change together or not at all.

A process may be killed between any two lines. One file is written beside its name and renamed; several are written
beside their folder, listed in a plan, and then renamed one by one: whoever comes next carries out a plan that is there,
and throws away what has none.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

PENDING = ".pending"
"""The folder of a change that is not finished, in the folder that changes."""
_PLAN = "plan.json"
_SUFFIX = ".partial"


def temporary(path: Path) -> Path:
    """A new name beside `path` for a file or a folder; what killed processes left under such names of it is removed.

    Raises `OSError` for a path without a name, as of the current folder, and for what is there and is no file: who may
    rename onto a device would have put a file in its place.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if _is_special(path):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and no file may take its place", str(path))
    for left in path.parent.glob(f".{_escaped(path.name)}.*{_SUFFIX}"):
        process = left.name.removesuffix(_SUFFIX).rpartition(".")[2].partition("-")[0]
        if process.isdecimal() and not _runs(int(process)):
            remove(left)
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}")


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, if it is there; an interrupt comes after that, not between."""
    try:
        _remove(path)
    except BaseException:
        _remove(path)
        raise


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's, or no number of a process
        return True
    return True


def _is_special(path: Path) -> bool:
    """Whether a path is a device, a pipe or a socket, or a link among devices, as standard output is."""
    return path.parent == Path("/dev") or (path.exists() and not path.is_file() and not path.is_dir())


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `path` whole or not at all, text as UTF-8; its folder is made. Raises `OSError` as the disk does.

    To a device or a pipe, as /dev/stdout, it is written straight; a pipe that nobody reads is refused, not waited for.
    """
    if _is_special(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "wb") as device:
            device.write(content.encode() if isinstance(content, str) else content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = temporary(path)
    try:
        _write_synced(beside, content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _write_synced(path: Path, content: str | bytes) -> None:
    with path.open("xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())


def change_together(root: Path, contents: Mapping[str, str | bytes | None]) -> None:
    """Write every file of `contents` (paths below `root`; None: remove it), or none of them.

    A kill before the plan stands changes nothing; after it, `finish_change` carries it out. Raises `OSError`.
    """
    finish_change(root)
    folder = root / PENDING
    try:
        folder.mkdir()
        plan: list[tuple[str, str | None]] = []
        for number, (name, content) in enumerate(contents.items()):
            if content is not None:
                _write_synced(folder / str(number), content)
            plan.append((name, None if content is None else str(number)))
        write_whole(folder / _PLAN, json.dumps(plan))
    except BaseException:
        if not (folder / _PLAN).exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finish_change(root)


def finish_change(root: Path) -> None:
    """Carry out a change of `root` that was interrupted behind its plan; undo one that was interrupted before it."""
    folder = root / PENDING
    if (folder / _PLAN).is_file():
        for name, content in json.loads((folder / _PLAN).read_text(encoding="utf-8")):
            target = root / name
            if content is None:
                target.unlink(missing_ok=True)
            elif (folder / content).is_file():  # otherwise it is where it belongs already
                target.parent.mkdir(parents=True, exist_ok=True)
                (folder / content).replace(target)
        (folder / _PLAN).unlink()
    if folder.is_dir():
        shutil.rmtree(folder)
