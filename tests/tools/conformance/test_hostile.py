"""Hostile testees: whatever a process does, and whatever an answer holds, is one line and an exit code."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from qwen3_golden import Recording, Tensor, pb, read, write
from qwen3_golden.writer import tensor
from qwen3_parity.cli import main
from qwen3_parity.conformance.port import NoAnswerError
from qwen3_parity.judge.candidates import golden_names

CASE = "op/rope"
GOLDEN = golden_names()[CASE]
START = """
import os, signal, sys, time
def ask():
    size = int.from_bytes(os.read(0, 4), "little")
    while size > 0:
        size -= len(os.read(0, size))
def say(size, content=b""):
    os.write(1, size.to_bytes(4, "little") + content)
"""
NOTHING = "gives no answer in"
PROCESSES = {
    "silent": ("ask(); time.sleep(60)", NOTHING),
    "reads_nothing": ("time.sleep(60)", NOTHING),
    "reads_half": ("os.read(0, 500); time.sleep(60)", NOTHING),
    "closes_stdin": ("os.close(0); time.sleep(60)", NOTHING),
    "closes_stdin_and_exits": ("os.close(0); os._exit(0)", "exits with code 0"),
    "closes_stdout": ("ask(); os.close(1); time.sleep(60)", "closes its standard output"),
    "closes_stderr_and_hangs": ("os.close(2); ask(); time.sleep(60)", NOTHING),
    "closes_everything": ("os.closerange(0, 3); time.sleep(60)", "closes its standard output"),
    "exits_at_once": ("os._exit(0)", "exits with code 0"),
    "exits_255": ("ask(); os._exit(255)", "exits with code 255"),
    "raises": ("ask(); raise RuntimeError('no kernel')", "it said: RuntimeError: no kernel"),
    "killed": ("ask(); os.kill(os.getpid(), signal.SIGKILL)", "is ended by signal 9"),
    "segfaults": ("ask(); os.kill(os.getpid(), signal.SIGSEGV)", "is ended by signal 11"),
    "ignores_signals": (
        "[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; ask(); time.sleep(60)",
        NOTHING,
    ),
    "stops_itself": ("ask(); os.kill(os.getpid(), signal.SIGSTOP)", NOTHING),
    "forks_and_exits": ("ask(); os.fork() and os._exit(7); time.sleep(60)", NOTHING),
    "forks_many": ("ask(); [os.fork() or time.sleep(60) for _ in range(8)]; time.sleep(60)", NOTHING),
    "leaves_its_session": ("ask(); os.fork() and os._exit(7); os.setsid(); time.sleep(2)", NOTHING),
    "floods_stderr": ("ask()\nwhile True: os.write(2, b'x' * 65536)", NOTHING),
    "one_endless_line": ("ask(); os.write(2, b'y' * 10**6); os._exit(1)", "it said: yyy"),
    "escapes": ("ask(); os.write(2, b'\\x1b[2J\\x07\\xff\\0gone'); os._exit(1)", "it said: \\x1b[2J"),
    "floods_stdout_with_nothing": ("ask()\nwhile True: os.write(1, bytes(65536))", "writes more than its answer"),
    "floods_stdout_with_text": ("ask()\nwhile True: os.write(1, b'no ' * 9999)", "announces an answer of"),
    "floods_before_it_reads": ("while True: os.write(1, bytes(65536))", "standard output"),
    "empty_answer": ("ask(); say(0); time.sleep(60)", "answers request 0 when asked request 1"),
    "largest_size": ("ask(); os.write(1, b'\\xff' * 4); time.sleep(60)", "announces an answer of 4294967295 bytes"),
    "one_too_large": ("ask(); say((1 << 28) + 1); time.sleep(60)", "announces an answer of 268435457 bytes"),
    "big_endian": ("ask(); os.write(1, (64).to_bytes(4, 'big')); time.sleep(60)", "announces an answer of"),
    "half_a_size": ("ask(); os.write(1, b'\\x08\\0'); time.sleep(60)", "gives 2 bytes of an answer in"),
    "half_a_size_and_exits": ("ask(); os.write(1, b'\\x08\\0'); os._exit(0)", "after 2 bytes of an answer"),
    "half_a_message": ("ask(); say(10, b'12345'); time.sleep(60)", "gives 9 bytes of an answer in"),
    "drips": ("ask(); say(10**6)\nwhile True: os.write(1, b'.'); time.sleep(0.02)", "bytes of an answer in"),
    "a_byte_more": ("ask(); say(2, b'\\x08\\x01.'); time.sleep(60)", "writes more than its answer of 2 bytes"),
    "without_a_size": ("ask(); os.write(1, b'\\x08\\x01'); time.sleep(60)", "gives 2 bytes of an answer in"),
    "json": ("ask(); os.write(1, b'{\"id\": 1}\\n'); time.sleep(60)", "announces an answer of"),
    "no_protobuf": ("ask(); say(5, b'hello'); time.sleep(60)", "are no ConformanceAnswer"),
    "cut_protobuf": ("ask(); say(4, b'\\x08\\x01\\x12\\x7f'); time.sleep(60)", "are no ConformanceAnswer"),
    "no_text": ("ask(); say(5, b'\\x08\\x01\\x22\\x01\\xff'); time.sleep(60)", "are no ConformanceAnswer"),
    "nothing_in_it": ("ask(); say(2, b'\\x08\\x01'); time.sleep(60)", "answers with nothing"),
    "another_id": ("ask(); say(2, b'\\x08\\x07'); time.sleep(60)", "answers request 7 when asked request 1"),
    "largest_id": (
        "ask(); say(11, b'\\x08' + b'\\xff' * 9 + b'\\x01'); time.sleep(60)",
        "answers request 18446744073",
    ),
    "answers_unasked": ("say(2, b'\\x08\\x01'); time.sleep(60)", "answers"),
}


def run(*arguments: str, timeout: float = 20) -> Result:
    words = ["conformance", "--only", CASE, "--timeout", str(timeout), *arguments]
    return CliRunner().invoke(main, words)


def one_line(done: Result, text: str) -> None:
    assert isinstance(done.exception, SystemExit) and done.exit_code == 1, done.output
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"{CASE}: ")]
    assert text in line and len(line) < 400 and line.isprintable()


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("what", PROCESSES)
def test_whatever_a_process_does_is_one_line(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen3_parity.conformance.port._ENDS", 0.2)
    code, text = PROCESSES[what]
    timeout = 0.3 if text == NOTHING else 1.5 if text.endswith(" in") else 20
    one_line(run("--", sys.executable, "-I", "-S", "-c", START + code, timeout=timeout), text)


def test_a_port_that_echoes_its_request_is_no_port() -> None:
    one_line(run("--", "cat"), "divergence")


@pytest.mark.parametrize("command", ["/no/such/port", "/", "/etc/hostname", "a\0b"])
def test_what_is_no_program_is_refused(command: str) -> None:
    done = run("--", command)
    assert isinstance(done.exception, SystemExit) and done.exit_code == 2 and "cannot be started" in done.output


def sealed(message: pb.Recording) -> bytes:
    """The message as a file whose `end` has the digest of its metadata."""
    metadata = pb.Recording()
    metadata.CopyFrom(message)
    for field in ("header", "padding", "payload", "end"):
        metadata.ClearField(field)
    message.end.digest = hashlib.sha256(metadata.SerializeToString()).digest()
    return message.SerializeToString()


def raw(change: Callable[[pb.Recording], object]) -> Callable[[Path], bytes]:
    """The golden's message, changed and sealed again."""

    def made(_: Path) -> bytes:
        message = pb.Recording.FromString(GOLDEN.read_bytes())
        message.ClearField("padding")
        change(message)
        return sealed(message)

    return made


def other(change: Callable[[Tensor], Tensor | None]) -> Callable[[Path], bytes]:
    """The golden, each of its outputs changed, left out for None."""

    def made(folder: Path) -> bytes:
        golden = read(GOLDEN)
        taps = [change(item) if item.info.name.startswith("output.") else item for item in golden]
        write(
            folder / "answer.pb",
            Recording(golden.case, golden.provenance, golden.run, [tap for tap in taps if tap is not None]),
        )
        return (folder / "answer.pb").read_bytes()

    return made


def values(change: Callable[[Any], Any]) -> Callable[[Path], bytes]:
    return other(lambda item: tensor(item.info.name, np.ascontiguousarray(change(item.array)), op="rope"))


def field(name: str, value: Any) -> Callable[[Path], bytes]:
    return raw(lambda message: setattr(message.tensor[-1], name, value))


def shape(*sizes: int) -> Callable[[Path], bytes]:
    return raw(lambda message: message.tensor[-1].shape.__setitem__(slice(None), sizes))


RECORDINGS: dict[str, Callable[[Path], bytes]] = {
    "nan": values(lambda a: np.full_like(a, np.nan)),
    "one_infinity": values(lambda a: np.where(np.arange(a.size).reshape(a.shape) == 3, np.float32(np.inf), a)),
    "zeros": values(np.zeros_like),
    "largest_numbers": values(lambda a: np.full_like(a, np.finfo(np.float32).max)),
    "transposed": values(lambda a: a.swapaxes(-1, -2)),
    "flat": values(lambda a: a.ravel()),
    "empty": values(lambda a: a[:0]),
    "whole_numbers": values(lambda a: a.astype(np.int64)),
    "half_precision": values(lambda a: a.astype(np.float16)),
    "another_step": other(lambda item: tensor(item.info.name, item.array, step=5, op="rope")),
    "no_outputs": other(lambda item: None),
    "no_bytes": lambda _: b"",
    "one_byte": lambda _: b"\x0a",
    "twice_the_file": lambda _: GOLDEN.read_bytes() * 2,
    "half_the_file": lambda _: GOLDEN.read_bytes()[: GOLDEN.stat().st_size // 2],
    "negative_size": shape((1 << 64) - 1, 6, 7, 10),
    "negative_sizes": shape((1 << 64) - 2, (1 << 64) - 6, 7, 10),
    "huge_size": shape(1 << 62, 1 << 62),
    "many_axes": shape(*[1] * 5000),
    "more_bytes_than_there_are": field("bytes", 1 << 60),
    "unknown_dtype": raw(lambda message: setattr(message.tensor[-1], "dtype", 99)),
    "negative_step": raw(lambda message: message.case.steps.append(1 << 31)),
    "another_case": raw(lambda message: setattr(message.case, "name", "op/\x1b[31m\nscores")),
    "no_name": field("name", ""),
    "a_tap_twice": raw(lambda message: message.tensor[-1].CopyFrom(message.tensor[-2])),
    "declares_everything": raw(lambda message: message.run.materialised.extend(f"x{n}" for n in range(300))),
    "declares_nothing": raw(lambda message: message.run.ClearField("materialised")),
    "no_run": raw(lambda message: message.ClearField("run")),
    "training_mode": raw(lambda message: setattr(message.case, "mode", pb.WEIGHTS)),
    "newer_schema": raw(lambda message: setattr(message.header, "schema_major", 9)),
}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[pb.ConformanceAnswer]:
    """What a port in this process answers with, in the place of one behind a pipe."""
    given: list[pb.ConformanceAnswer] = []

    def ask(_: object, request: pb.ConformanceRequest, name: str) -> pb.ConformanceAnswer:
        if not given:
            raise NoAnswerError("gives no answer")
        answer = given[0]
        answer.id = request.id
        return answer

    monkeypatch.setattr("qwen3_parity.conformance.port.Port.ask", ask)
    return given


@pytest.mark.parametrize("what", RECORDINGS)
def test_whatever_a_recording_holds_is_one_line(what: str, answers: list[pb.ConformanceAnswer], tmp_path: Path) -> None:
    answers.append(pb.ConformanceAnswer(recording=RECORDINGS[what](tmp_path)))
    one_line(run("--", "nobody"), "")


TEXTS = {
    "long": ("e" * 10**6, "error: eeee"),
    "lines": ("no\n\n\tkernel\r\n", "error: no kernel"),
    "escapes": ("\x1b[31m\u202egnorw\x00", "error: "),
    "empty": ("", "error: "),
}


@pytest.mark.parametrize("what", TEXTS)
def test_whatever_an_error_says_is_one_line(what: str, answers: list[pb.ConformanceAnswer]) -> None:
    said, text = TEXTS[what]
    answers.append(pb.ConformanceAnswer(error=said))
    one_line(run("--", "nobody"), text)


@pytest.mark.parametrize("name", ["op/a.pb", "op/z.pb", "more.pb"])
@pytest.mark.parametrize("content", [b"no recording", GOLDEN.read_bytes()])
def test_what_a_port_puts_among_its_answers_is_said(
    name: str, content: bytes, answers: list[pb.ConformanceAnswer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_: object, request: pb.ConformanceRequest, case: str) -> pb.ConformanceAnswer:
        (extra := tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        extra.write_bytes(content)
        return pb.ConformanceAnswer(id=request.id, recording=GOLDEN.read_bytes())

    monkeypatch.setattr("qwen3_parity.conformance.port.Port.ask", ask)
    done = run("--out", str(tmp_path / "out"), "--", "nobody")
    assert isinstance(done.exception, SystemExit) and done.exit_code == 1, done.output
    assert f"{tmp_path / 'out' / name}: put there by the port" in done.output.replace("\n", "")


def test_there_are_fifty_and_more() -> None:
    assert len(PROCESSES) + len(RECORDINGS) + len(TEXTS) >= 50
