"""The folder beside a golden in the making: what an interrupted run of the same request goes on from."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qwen3_golden import ParityError, Recording, read, write

_REQUEST = "request.pb"


def work_folder_of(path: Path) -> Path:
    """Where a golden that will be `path` is in the making."""
    return path.with_name(f".{path.stem}.capturing")


def _differences(interrupted: Recording, asked: Recording) -> list[str]:
    """What is another in the request that was interrupted."""
    fields = {field.name for case in (interrupted.case, asked.case) for field, _ in case.ListFields()}
    different = [name for name in sorted(fields) if getattr(interrupted.case, name) != getattr(asked.case, name)]
    if interrupted.provenance != asked.provenance:
        different.append("versions of libraries, or the platform")
    if interrupted.run.arithmetic != asked.run.arithmetic:
        different.append("dtype")
    digests = [{item.key: bytes(item.info.sha256) for item in recording} for recording in (interrupted, asked)]
    if digests[0] != digests[1]:
        different.append("inputs")
    return different


def _check_same(folder: Path, request: Recording, path: Path) -> None:
    """What lies in the folder belongs to `request`, or `ParityError`; a folder without a request is empty."""
    now, before = folder / "now.pb", folder / _REQUEST
    write(now, request)
    if not before.exists():
        now.replace(before)
        return
    different = _differences(read(before), read(now))
    now.unlink()
    if different:
        raise ParityError(
            path,
            "an interrupted run of another request has this name",
            expected="the request that was interrupted, to go on with it",
            got=f"different {', '.join(different)}",
            next_step=f"choose another name, or delete {folder} to give up what that run had done",
        )


def _lock(folder: Path, path: Path) -> int:
    """The lock of a folder, as a file descriptor: the system opens it when the process ends, however it ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ParityError(
            path,
            "another process is recording this golden",
            expected="one process for each golden",
            got=f"{folder} is locked",
            next_step="wait for it, or choose another name",
        ) from None
    return descriptor


def _allow_many_files() -> None:
    """As many open files as the system lets a process have: a long run on a slow machine has one for each layer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _make(folder: Path, path: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParityError(
            path,
            "the folder for the recording cannot be made",
            expected="a folder that can be written to",
            got=error.strerror or error,
            next_step="choose another folder",
        ) from None


@contextmanager
def work_folder(path: Path, request: Recording, *, resume: bool = True) -> Iterator[Path]:
    """The folder of the golden `path`, which is in the making; gone when the `with` ends well.

    `request` is a recording of the inputs alone. It stays when the run is interrupted behind a finished layer, for the
    next run of the same request; `resume=False` begins anew and leaves nothing. Raises `ParityError`, and leaves the
    folder, when it is another request's or another process is at work in it. Any other `ParityError` is nothing to go
    on from: the folder is removed.
    """
    folder = work_folder_of(path)
    _make(folder, path)
    lock = _lock(folder, path)
    try:
        for unfinished in folder.glob(".*"):
            unfinished.unlink()
        _check_same(folder, request, path)
        if not resume:
            for part in folder.glob("*-*.pb"):
                part.unlink()
        _allow_many_files()
        try:
            yield folder
        except BaseException as error:
            if isinstance(error, ParityError) or not resume:
                shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)
    except BaseException as error:
        others = isinstance(error, ParityError)  # another request's, which may go on from nothing, too
        if not others and not any(folder.glob("*-*.pb")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(lock)
        if folder.exists() and not (folder / _REQUEST).exists():
            shutil.rmtree(folder)
