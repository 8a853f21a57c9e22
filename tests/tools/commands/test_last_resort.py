"""No command ends in a traceback or in the code of a divergence by accident, and whatever ends it leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT
from qwen3_golden.whole_folder import whole_folder
from qwen3_parity.cli import TRACEBACK, main

GOLDEN = str(GOLDEN_ROOT / "cases" / "decoder" / "plain.pb")
COMMAND = [sys.executable, "-m", "qwen3_parity"]
MODEL = str(GOLDEN_ROOT / "checkpoints" / "window-encoder")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` with a bug that nobody thought of."""

    def wrong(*_: object, **__: object) -> NoReturn:
        raise KeyError("\x1b[31mq_norm")

    monkeypatch.setattr("qwen3_parity.commands._candidates.read", wrong)
    monkeypatch.setattr(sys, "argv", ["qwen3-parity"])
    monkeypatch.delenv(TRACEBACK, raising=False)


def test_any_other_exception_is_a_harness_bug_and_no_divergence(broken: None) -> None:
    done = CliRunner().invoke(main, ["check", GOLDEN, GOLDEN])
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr.startswith("harness bug: ") and "Traceback" not in done.stderr
    assert "KeyError" in done.stderr and "report it" in done.stderr and TRACEBACK in done.stderr
    assert "\x1b" not in done.stderr


def test_a_harness_bug_is_json_for_scripts(broken: None) -> None:
    done = CliRunner().invoke(main, ["check", "--json", GOLDEN, GOLDEN])
    said = json.loads(done.stdout)
    assert done.exit_code == said["exit_code"] == 2 and said["error"]["fault"] == "harness bug"


@pytest.mark.parametrize("way", ["-v", TRACEBACK])
def test_its_traceback_is_shown_to_whoever_asks(broken: None, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["check", GOLDEN, GOLDEN, *(["-v"] if way == "-v" else [])]
    monkeypatch.setattr(sys, "argv", ["qwen3-parity", *words])
    if way == TRACEBACK:
        monkeypatch.setenv(TRACEBACK, "1")
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "Traceback" in done.stderr and "harness bug: " in done.stderr


def test_a_verb_that_cannot_be_imported_is_a_harness_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qwen3_parity.commands.check", None)
    done = CliRunner().invoke(main, ["--help"])
    assert done.exit_code == 2 and done.stderr.startswith("harness bug: ")


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("words", ["doctor", "doctor --json", f"show {GOLDEN}", f"check {GOLDEN} -q", "--help"])
def test_a_closed_standard_output_is_refused(words: str) -> None:
    line = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *words.split()]
    done = subprocess.run(line, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.startswith("standard output: it cannot be read or written") and "it is closed" in done.stderr


def test_a_closed_standard_error_changes_no_verdict() -> None:
    line = ["sh", "-c", 'exec "$@" 2>&-', "sh", *COMMAND, "check", GOLDEN, "-q"]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False, timeout=300)
    assert done.returncode == 0 and "parity" in done.stdout


@pytest.mark.parametrize("words", [f"show {GOLDEN} --json", f"check {GOLDEN} --json", "weights --help"])
def test_whoever_reads_the_first_line_alone_gets_no_traceback(words: str) -> None:
    line = ["bash", "-c", '"$@" | head -1; exit ${PIPESTATUS[0]}', "bash", *COMMAND, *words.split()]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, 141) and done.stderr == ""


INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and a shell's & ignore them, for whatever they start
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from pathlib import Path
import qwen3_parity.commands._candidates as command
from qwen3_golden.whole_folder import whole_folder
from qwen3_parity.cli import main
number, twice = int(sys.argv[1]), sys.argv[2] == "twice"
def slow(*_, **__):
    with whole_folder(Path(sys.argv[3])) as folder:
        (folder / "begun").touch()
        os.kill(os.getpid(), number)
command.read = slow
import shutil
remove = shutil.rmtree
def interrupted(*arguments, **named):
    shutil.rmtree = remove
    os.kill(os.getpid(), signal.SIGINT)
    remove(*arguments, **named)
if twice:
    shutil.rmtree = interrupted
main(["check", "golden.pb", "candidate.pb"])
"""


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_no_folder(number: signal.Signals, twice: bool, tmp_path: Path) -> None:
    words = [str(int(number)), "twice" if twice else "once", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == (130 if twice else 128 + number) and "Traceback" not in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, sys
from pathlib import Path
from qwen3_golden.whole_folder import whole_folder
with whole_folder(Path(sys.argv[1])) as folder:
    (folder / "begun").touch()
    os.kill(os.getpid(), 9)
"""


def test_what_a_kill_left_is_removed_by_the_next_run(tmp_path: Path) -> None:
    code = "import os, sys\nfrom pathlib import Path\nfrom qwen3_golden.whole_folder import whole_folder\n"
    code += (
        "with whole_folder(Path(sys.argv[1])) as folder:\n    (folder / 'begun').touch()\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=False, timeout=300)
    assert len(list(tmp_path.iterdir())) == 1
    with whole_folder(tmp_path / "out") as folder:
        (folder / "done").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_a_capture_that_is_ended_before_its_first_layer_leaves_nothing(tmp_path: Path) -> None:
    words = ["capture", "--model", MODEL, "--source-ids", "1,2,3", "--out", str(tmp_path)]
    code = "import os, signal\nimport qwen3_reference.capture.work_folder as work\nfrom qwen3_parity.cli import main\n"
    code += "work._allow_many_files = lambda: os.kill(os.getpid(), signal.SIGTERM)\nmain()\n"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 143 and list(tmp_path.iterdir()) == [], done.stderr


PIPES = {
    "--history": f"report {GOLDEN} --format markdown --label x --history PIPE",
    "--names": f"dump import decoder/plain {GOLDEN_ROOT} --names PIPE",
    "--known": "conformance --only op/rope --known PIPE -- cat",
    "--case": "conformance --case PIPE -- cat",
    "--card": "check FOLDER --card PIPE",
    "--file": f"check --tokenizer {GOLDEN_ROOT / 'tokenizers' / 'tiny'} --file PIPE",
    "--against": f"report {GOLDEN} --format markdown --against PIPE",
    "a candidate": "check PIPE",
    "a recording in a folder": "check FOLDER",
    "a dump": "dump import decoder/plain PIPE.npz",
    "both sides": f"show {GOLDEN} PIPE",
    "--out that nobody reads": f"report {GOLDEN} --format markdown --out PIPE",
    "--junit that nobody reads": "check FOLDER --junit PIPE",
}


@pytest.fixture
def impatient() -> Iterator[None]:
    """What waits for two minutes is red, and does not hang."""

    def hangs(*_: object) -> NoReturn:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("option", PIPES)
def test_a_named_pipe_is_refused_and_not_waited_for(option: str, tmp_path: Path) -> None:
    (folder := tmp_path / "folder").mkdir()
    target = folder / "rope.pb"
    if option == "a recording in a folder":
        os.mkfifo(target)
    else:
        target.write_bytes((GOLDEN_ROOT / "cases" / "op" / "rope.pb").read_bytes())
    pipe = tmp_path / ("pipe.npz" if "PIPE.npz" in PIPES[option] else "pipe")
    os.mkfifo(pipe)
    words = PIPES[option].replace("PIPE.npz", "PIPE").replace("PIPE", str(pipe)).replace("FOLDER", str(folder))
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit) and "harness bug" not in done.output
    assert str(tmp_path) in done.output
