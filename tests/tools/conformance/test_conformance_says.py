"""What a run of a port says in the end: the line of a crash that matters, every case counted, an interrupt survived."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, read, write
from qwen3_parity.cli import main
from qwen3_parity.conformance.last_words import telling
from qwen3_parity.conformance.port import Limits
from qwen3_parity.conformance.run import conformance
from qwen3_parity.report.progress import Progress

CASES = ("op/linear", "op/rope", "op/scores", "op/swiglu")
PORT = f"""
import importlib.util, os, pathlib, signal, sys, time

spec = importlib.util.spec_from_file_location("golden_pb2", {str(GOLDEN_ROOT / "qwen3_golden" / "golden_pb2.py")!r})
pb = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pb)
cases, count = pathlib.Path({str(GOLDEN_ROOT / "cases")!r}), 0
while size := sys.stdin.buffer.read(4):
    request = pb.ConformanceRequest.FromString(sys.stdin.buffer.read(int.from_bytes(size, "little")))
    name = pb.Recording.FromString(request.recording).case.name
    AT
    answer = pb.ConformanceAnswer(id=request.id, recording=(cases / (name + ".pb")).read_bytes()).SerializeToString()
    sys.stdout.buffer.write(len(answer).to_bytes(4, "little") + answer)
    sys.stdout.buffer.flush()
"""
STACK = "\n".join(f"\tat qwen3.port.Ops.run(Ops.java:{line})" for line in range(900))
CRASHES = {
    "rust": (
        "thread 'main' panicked at src/ops.rs:12:9:\nindex out of bounds: the len is 3 but the index is 3\n"
        "stack backtrace:\n   0: rust_begin_unwind\nnote: run with `RUST_BACKTRACE=1` environment variable",
        "thread 'main' panicked at src/ops.rs:12:9: index out of bounds: the len is 3 but the index is 3",
    ),
    "older rust": (
        "thread 'main' panicked at 'no kernel', src/ops.rs:2:5\nnote: run with `RUST_BACKTRACE=1`",
        "thread 'main' panicked at 'no kernel', src/ops.rs:2:5",
    ),
    "java": (
        f'Exception in thread "main" java.lang.IllegalStateException: no kernel\n{STACK}',
        'Exception in thread "main" java.lang.IllegalStateException: no kernel',
    ),
    "java with a cause": (
        'Exception in thread "main" java.lang.RuntimeException: op\n\tat A.b(A.java:1)\n'
        "Caused by: java.lang.ArithmeticException: / by zero\n\tat C.d(C.java:2)\n\t... 1 more",
        "Caused by: java.lang.ArithmeticException: / by zero",
    ),
    "python": (
        'Traceback (most recent call last):\n  File "port.py", line 3, in <module>\n    run()\n'
        "port.Missing: no kernel\nsys:1: a warning at the end",
        "port.Missing: no kernel",
    ),
    "go": (
        "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\n"
        "main.main()\n\t/src/main.go:5 +0x1d\nexit status 2",
        "panic: runtime error: index out of range [3] with length 3",
    ),
    "c++": (
        "terminate called after throwing an instance of 'std::out_of_range'\n  what():  vector::_M_range_check\n"
        "Aborted (core dumped)",
        "terminate called after throwing an instance of 'std::out_of_range' what():  vector::_M_range_check",
    ),
    "assert": (
        "port: ops.cpp:7: void rope(): Assertion `n % 2 == 0' failed.\nAborted",
        "port: ops.cpp:7: void rope(): Assertion `n % 2 == 0' failed.",
    ),
    "node": (
        "/src/port.js:4\n    throw new TypeError('no kernel')\n    ^\n\nTypeError: no kernel\n"
        "    at Object.<anonymous> (/src/port.js:4:7)\n\nNode.js v20.20.2",
        "TypeError: no kernel",
    ),
    ".net": (
        "Unhandled exception. System.InvalidOperationException: no kernel\n   at Port.Main() in Port.cs:line 3",
        "Unhandled exception. System.InvalidOperationException: no kernel",
    ),
    "julia": (
        "ERROR: LoadError: DimensionMismatch\nin expression starting at port.jl:3",
        "ERROR: LoadError: DimensionMismatch",
    ),
    "nothing of the kind": ("loading\nno kernel", ""),
}


def port(folder: Path, at: str = "") -> tuple[str, ...]:
    """A port that answers with the goldens; `at` is what it does before."""
    path = folder / "port.py"
    path.write_text(PORT.replace("AT", at or "pass"), encoding="utf-8")
    return sys.executable, str(path)


def run(*arguments: object) -> Result:
    only = [word for name in CASES for word in ("--only", name)]
    return CliRunner().invoke(main, ["conformance", *only, *map(str, arguments)], terminal_width=200)


@pytest.mark.parametrize("language", CRASHES)
def test_a_crash_is_told_by_the_line_that_matters(language: str) -> None:
    text, line = CRASHES[language]
    assert telling(text) == line


@pytest.mark.parametrize("language", ["rust", "java", "nothing of the kind"])
def test_a_crash_of_a_port_is_said_by_that_line(language: str, tmp_path: Path) -> None:
    text, line = CRASHES[language]
    (tmp_path / "said").write_text(text, encoding="utf-8")
    crash = f"if name == 'op/rope': os.write(2, pathlib.Path({str(tmp_path / 'said')!r}).read_bytes()); os._exit(101)"
    failed = conformance(port(tmp_path, crash), CASES, tmp_path / "out", limits=Limits(20.0)).failed
    assert failed == {"op/rope": f"exits with code 101 without an answer; it said: {line or 'no kernel'}"}


def test_an_answer_that_is_a_traceback_is_said_by_that_line(tmp_path: Path) -> None:
    text = CRASHES["python"][0]
    wrong = f"answer = pb.ConformanceAnswer(id=request.id, error={text!r}).SerializeToString()"
    code = PORT.replace("AT", "pass").replace(
        "    sys.stdout.buffer.write", f"    {wrong}\n    sys.stdout.buffer.write", 1
    )
    (tmp_path / "port.py").write_text(code, encoding="utf-8")
    failed = conformance(
        [sys.executable, str(tmp_path / "port.py")], CASES[:1], tmp_path / "o", limits=Limits(20.0)
    ).failed
    assert failed == {"op/linear": "error: port.Missing: no kernel"}


def test_every_case_that_was_asked_for_is_counted(tmp_path: Path) -> None:
    done = run("--", *port(tmp_path, "if name in ('op/rope', 'op/scores'): sys.exit(3)"))
    assert done.exit_code == 1 and "parity in 2 of 4 cases, 2 without an answer" in done.stdout
    done = run("-q", "--", *port(tmp_path, "if name in ('op/rope', 'op/scores'): sys.exit(3)"))
    assert "parity in 2 of 4 cases, 2 without an answer" in done.stdout
    done = run("--", *port(tmp_path, "sys.exit(3)"))
    assert "nothing was judged, and that is a failure: 4 of 4 cases without an answer" in done.stdout


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_keeps_the_verdicts(number: signal.Signals, code: int, jobs: int, tmp_path: Path) -> None:
    interrupt = f"if name == 'op/swiglu': os.kill({{}}, {int(number)}); time.sleep({60 if jobs == 1 else 1})"
    script = tmp_path / "asks.py"
    script.write_text(
        "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)  # who runs tests may ignore it\n"
        "os.environ['ASKS'] = str(os.getpid())\nfrom qwen3_parity.cli import main\nmain()\n"
    )
    words = ["conformance", *(word for name in CASES for word in ("--only", name)), "--jobs", str(jobs), "--json", "--"]
    command = [sys.executable, str(script), *words, *port(tmp_path, interrupt.format("int(os.environ['ASKS'])"))]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == code, done.stderr
    said = json.loads(done.stdout)
    judged = [case["case"] for case in said["judged"]["cases"]]
    assert said["exit_code"] == code and said["interrupted"] and not said["failed"]
    assert sorted(judged + said["not_judged"]) == sorted(CASES)
    if jobs == 1:
        assert judged == list(CASES[:3])
    else:  # the other process may be ahead or behind, and what is under way is answered
        assert {"op/linear", "op/rope"} <= {*judged}


def test_an_interrupt_among_fresh_cases_keeps_the_verdicts_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = list[tuple[int, int]]()

    def interrupted(self: object, done: int, total: int) -> None:
        counts.append((done, total))
        if (done, total) == (2, 7):
            raise KeyboardInterrupt

    monkeypatch.setattr("qwen3_parity.report.progress.Progress.count", interrupted)
    examples = GOLDEN_ROOT.parent / "examples" / "numpy_process.py"
    done = run("--seed", 1, "--fresh", 7, "--json", "--save", tmp_path, "--", sys.executable, examples)
    said = json.loads(done.stdout)
    assert done.exit_code == 130 and said["interrupted"]
    assert len(said["judged"]["cases"]) == 4 and said["fresh"]["judged"] == 2
    assert [count for count in counts if count[1] == 7] == [(0, 7), (1, 7), (2, 7)]


def test_an_interrupt_while_answers_are_judged_keeps_those_that_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Progress, done: int, total: int) -> None:
        if self.text == "judging" and done == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("qwen3_parity.report.progress.Progress.count", interrupted)
    done = run("--json", "--", *port(tmp_path))
    said = json.loads(done.stdout)
    assert done.exit_code == 130 and said["interrupted"] and not said["failed"]
    assert [case["case"] for case in said["judged"]["cases"]] == list(CASES[:2])
    assert said["not_judged"] == list(CASES[2:])
    assert "parity in 2 of 4 cases, 2 not judged" in run("--", *port(tmp_path)).stdout


def test_what_was_not_asked_for_is_no_surprise(tmp_path: Path) -> None:
    known = tmp_path / "known.txt"
    known.write_text("training/tied # unsupported: training\n")
    done = run("--known", known, "--", *port(tmp_path))
    assert done.exit_code == 0 and "training/tied" not in done.stdout
    known.write_text("training/tide # unsupported: training\n")
    done = run("--known", known, "--", *port(tmp_path))
    assert done.exit_code == 1 and "training/tide: no case of this run is called so" in done.stdout


def test_a_level_counts_what_it_does_not_ask_for_and_does_not_list_it(tmp_path: Path) -> None:
    for name in (*CASES, "plumbing/dtypes"):
        write(tmp_path / f"{name}.pb", read(GOLDEN_ROOT / "cases" / f"{name}.pb"))
    done = CliRunner().invoke(main, ["check", str(tmp_path), "--level", "reader"])
    assert "4 recordings of other cases were left alone" in done.stdout and "op/" not in done.stdout


def test_a_card_that_goes_to_a_file_is_not_printed(tmp_path: Path) -> None:
    for name in CASES:
        write(tmp_path / "mine" / f"{name}.pb", read(GOLDEN_ROOT / "cases" / f"{name}.pb"))
    words = ["report", str(tmp_path / "mine"), "--format", "card", "--date", "2026-01-31"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "card")]).stdout
    assert "# " not in done and re.search(r"^card: .*/card\.json .*/card\.md$", done, re.MULTILINE)
    assert len(done.splitlines()) == 2
