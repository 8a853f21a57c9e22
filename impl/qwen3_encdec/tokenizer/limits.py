"""Work that somebody's file makes us do, in a process of its own with a limit of time and of memory."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from .errors import TokenizerError

SECONDS = 10.0
MEMORY = 512 << 20
"""Bytes beside what the process had already."""
OUTPUT = 64 << 20


def limited(work: Callable[[], str], owner: str, *, seconds: float = SECONDS, memory: int = MEMORY) -> str:
    """`work()` in a forked process; `TokenizerError` names the limit that it met, or is the one that it raised itself.

    `owner` is whose work it is. Where the system cannot fork, the work is done here, without limits.
    """
    if not hasattr(os, "fork"):
        return work()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads: the child runs nothing but `work`
        process = os.fork()
    if process == 0:
        os.close(reading)
        _child(work, writing, memory)
    os.close(writing)
    try:
        answer = _read(reading, owner, seconds)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    if not answer:
        raise _met(owner, f"{memory >> 20} MiB of memory")
    result = json.loads(answer)
    if "error" in result:
        raise TokenizerError(**result["error"])
    return str(result["text"])


def _child(work: Callable[[], str], writing: int, memory: int) -> NoReturn:
    """Do the work and write its result as JSON; nothing at all where memory ran out."""
    answer = b""
    try:
        _limit_memory(memory)
        answer = json.dumps({"text": work()}).encode("ascii")
    except TokenizerError as error:
        fields = ("where", "rule", "expected", "got", "next_step")
        answer = json.dumps({"error": {name: getattr(error, name) for name in fields}}).encode("ascii")
    except BaseException:  # memory, or what is wrong with us: the parent says which limit it was
        answer = b""
    finally:
        with suppress(OSError):
            for start in range(0, len(answer), 1 << 16):
                os.write(writing, answer[start : start + (1 << 16)])
        os._exit(0)


def _limit_memory(memory: int) -> None:
    with suppress(ImportError, OSError, ValueError):  # not Linux: time alone is limited
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _read(reading: int, owner: str, seconds: float) -> bytes:
    parts, size, end = list[bytes](), 0, time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise _met(owner, f"{seconds:g} seconds")
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > OUTPUT:
            raise _met(owner, f"{OUTPUT >> 20} MiB of text")


def _met(owner: str, limit: str) -> TokenizerError:
    return TokenizerError(
        owner,
        "what comes with a tokenizer takes little time and memory",
        expected=f"a result within {limit}",
        got="none by then",
        next_step="look at what the file asks for before you trust it",
    )
