"""A port as a process: one request, one answer, whatever the process does instead."""

from __future__ import annotations

import os
import resource
import selectors
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import IO, Self

from google.protobuf.message import DecodeError

from qwen3_golden import ParityError, pb
from qwen3_golden.errors import printable
from qwen3_parity.conformance.last_words import telling

LARGEST = 1 << 28
"""Bytes of an answer, at most."""
_PART = 1 << 16
_TAIL = 1 << 17
"""Bytes of standard error that are kept: a stack of a thousand frames, behind the line that matters."""
_LINE = 200
UNASKED = "writes to standard output though it was asked nothing"
_ENDS = 5.0
"""Seconds for a process to end where its input does."""


class NoAnswerError(Exception):
    """What a port did in place of an answer, in one line; its process is of no more use. `late`: nothing at all."""

    def __init__(self, line: str, *, late: bool = False) -> None:
        super().__init__(line)
        self.late = late


@dataclass(frozen=True)
class Limits:
    """`seconds` for an answer; `memory` bytes of a process's address space, 0 for no limit."""

    seconds: float = 60.0
    memory: int = 0


def start(command: Sequence[str], limits: Limits) -> subprocess.Popen[bytes]:
    """The port's process, in a group of its own. Raises `ParityError` where it cannot be started."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ParityError(
            command[0],
            "the port cannot be started",
            expected="a program and its arguments, after --",
            got=getattr(error, "strerror", None) or error,
            next_step="run the same command by itself",
        ) from None
    if limits.memory:
        _limit(process.pid, limits.memory)
    for pipe in _pipes(process):
        os.set_blocking(pipe.fileno(), False)
    return process


def _limit(pid: int, memory: int) -> None:
    with suppress(ProcessLookupError):  # it ended already, which its first request finds out
        resource.prlimit(pid, resource.RLIMIT_AS, (memory, memory))


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert process.stdin and process.stdout and process.stderr
    return process.stdin, process.stdout, process.stderr


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a port's process and what it started, and close its pipes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in _pipes(process):
        pipe.close()


def ask(process: subprocess.Popen[bytes], request: pb.ConformanceRequest, limits: Limits) -> pb.ConformanceAnswer:
    """A port's answer to a request. Raises `NoAnswerError`."""
    data = _exchange(process, request.SerializeToString(), limits.seconds)
    try:
        answer = pb.ConformanceAnswer.FromString(data)
    except DecodeError:
        raise NoAnswerError(f"answers with {len(data)} bytes that are no ConformanceAnswer") from None
    if answer.id != request.id:
        raise NoAnswerError(f"answers request {answer.id} when asked request {request.id}")
    return answer


def _exchange(process: subprocess.Popen[bytes], request: bytes, seconds: float) -> bytes:
    """Write a message and read one, both with their sizes, looking at all three pipes at once."""
    stdin, stdout, stderr = _pipes(process)
    pending = memoryview(len(request).to_bytes(4, "little") + request)
    answer, said = bytearray(), b""
    end = monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(stdin, selectors.EVENT_WRITE)
        for pipe in (stdout, stderr):
            selector.register(pipe, selectors.EVENT_READ)
        while (left := end - monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fileobj is stdin:
                    pending = _written(stdin, pending)
                    if not pending:
                        selector.unregister(stdin)
                    continue
                part = os.read(key.fd, _PART)
                if key.fileobj is stderr:
                    said = (said + part)[-_TAIL:]
                    if not part:
                        selector.unregister(stderr)
                    continue
                answer += part
                if not part:
                    raise NoAnswerError(f"{_ended(process, answer)}{_last_words(stderr, said)}")
            if _whole(answer):
                if pending:
                    raise NoAnswerError("answers before it has read its request")
                return bytes(answer[4:])
    received = f"{len(answer)} bytes of an answer" if answer else "no answer"
    raise NoAnswerError(f"gives {received} in {seconds:g} s{_last_words(stderr, said)}", late=True)


def _written(stdin: IO[bytes], pending: memoryview) -> memoryview:
    try:
        return pending[os.write(stdin.fileno(), pending[:_PART]) :]
    except BrokenPipeError:  # it reads no more; what it says instead is about to be read
        return memoryview(b"")


def _whole(answer: bytearray) -> bool:
    """Whether an answer is there; raises `NoAnswerError` where it is too large, and where more than one is."""
    if len(answer) < 4:
        return False
    size = int.from_bytes(answer[:4], "little")
    if size > LARGEST:
        raise NoAnswerError(f"announces an answer of {size} bytes, and {LARGEST} are allowed")
    if len(answer) > 4 + size:
        raise NoAnswerError(f"writes more than its answer of {size} bytes to standard output")
    return len(answer) == 4 + size


def _ended(process: subprocess.Popen[bytes], answer: bytearray) -> str:
    try:
        code = process.wait(timeout=_ENDS)
    except subprocess.TimeoutExpired:
        return "closes its standard output"
    how = f"is ended by signal {-code}" if code < 0 else f"exits with code {code}"
    return f"{how} after {len(answer)} bytes of an answer" if answer else f"{how} without an answer"


def _last_words(stderr: IO[bytes], said: bytes) -> str:
    """The line of standard error that matters, else the last one, as far as it is there."""
    with suppress(BlockingIOError):
        said += os.read(stderr.fileno(), _PART)
    text = said[-_TAIL:].decode(errors="replace").strip()
    if line := telling(text):
        return f"; it said: {printable(line)[:_LINE]}"
    return f"; it said: {printable(text.splitlines()[-1])[-_LINE:]}" if text else ""


def unasked(process: subprocess.Popen[bytes]) -> bool:
    """Whether a port writes to standard output though it was asked nothing."""
    stdout = _pipes(process)[1]
    try:
        return bool(os.read(stdout.fileno(), 1))
    except BlockingIOError:
        return False


def finish(process: subprocess.Popen[bytes]) -> str:
    """Close a port's input; what it does then but end, in one line. Its process is gone afterwards in any case."""
    stdin, stdout, stderr = _pipes(process)
    stdin.close()
    end, said = monotonic() + _ENDS, ""
    with selectors.DefaultSelector() as selector:
        for pipe in (stdout, stderr):
            selector.register(pipe, selectors.EVENT_READ)
        while process.poll() is None and monotonic() < end:
            for key, _ in selector.select(0.02):
                part = os.read(key.fd, _PART)
                if not part:
                    selector.unregister(key.fileobj)
                elif key.fileobj is stdout:
                    said = UNASKED
    if process.returncode is None:
        said = said or "does not end where its input does"
    elif not said and unasked(process):
        said = UNASKED
    kill(process)
    return said


class Port:
    """A port that is started when it is first asked, and again after it broke off; a context manager.

    `remarks` are what it did beside answering. Raises `ParityError` when it cannot be started.
    """

    def __init__(self, command: Sequence[str], limits: Limits) -> None:
        self.command, self.limits = command, limits
        self.remarks: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._last = ""

    def ask(self, request: pb.ConformanceRequest, name: str) -> pb.ConformanceAnswer:
        """Its answer; raises `NoAnswerError` for whatever it does instead, and then its process is gone."""
        if self._process is not None and unasked(self._process):
            self.remarks.append(f"after {self._last}: {UNASKED}")
            self._end()
        self._last = name
        self._process = self._process or start(self.command, self.limits)
        try:
            return ask(self._process, request, self.limits)
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            kill(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or self._process is None:
            self._end()
            return
        ending, self._process = self._process, None
        if said := finish(ending):
            self.remarks.append(f"after {self._last}: {said}")
