"""Opening files that others wrote: regular files only, so that a pipe or a device never makes a reader wait."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """An open file to read from; `OSError` for a pipe, a device, a socket or a folder, and for what cannot be opened.

    The file that was opened is looked at, not its name: nobody can exchange one for the other in between.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file, but a pipe, a device or a folder", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_inside(path: Path) -> BinaryIO:
    """The same for a file of a checkpoint, which must not be a link that leads out of its folder.

    A snapshot of Hugging Face's hub cache, `…/snapshots/REVISION`, links to the `blobs` beside it: that is allowed.
    """
    folder, target = path.parent.resolve(), path.resolve()
    allowed = [folder]
    for parent in folder.parents:
        if parent.name == "snapshots":
            allowed.append(parent.parent / "blobs")
    if not any(target.is_relative_to(place) for place in allowed):
        raise OSError(errno.EPERM, f"it is a link that leads out of its folder, to {target}", str(path))
    return open_regular(path)


def read_at_most(file: BinaryIO, most: int) -> bytes:
    """The content of an open file; `OSError` when it has more than `most` bytes."""
    content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes")
    return content
