"""The same tests judge recordings that were made elsewhere, in one process or in several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, read, write
from qwen3_parity import plugin

CASES = GOLDEN_ROOT / "cases"
CASE = CASES / "encoder" / "one_token.pb"


def judged(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of `pytest ARGUMENTS --candidate FOLDER`."""
    command = [sys.executable, "-m", "pytest", *arguments, "--candidate", str(folder), "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=GOLDEN_ROOT.parent, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_folder_of_recordings_is_judged_and_what_it_lacks_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    for golden, name in ((CASE, "one_token.pb"), (CASES / "encoder" / "ragged.pb", "encoder/ragged.pb")):
        (tmp_path / name).write_bytes(golden.read_bytes())
    code, output = judged(tmp_path, "tests/parity", "-p", "no:xdist")
    assert code == 0, output
    assert "taps compared in 2 cases; largest share of a budget 0 at" in output
    assert "skipped" in output and "deselected" in output


def test_a_worker_judges_and_what_it_found_is_printed(tmp_path: Path) -> None:
    golden = read(CASE)
    tensors = [Tensor(t.info, t.array * 2 if t.info.name.endswith("mlp.act") else t.array) for t in golden]
    write(tmp_path / "one_token.pb", Recording(golden.case, golden.provenance, golden.run, tensors))
    words = CASES / "tokenization" / "words.pb"
    (tmp_path / "words.pb").write_bytes(words.read_bytes())
    files = [f"tests/parity/test_parity_{part}.py" for part in ("components", "tokenization")]
    code, output = judged(tmp_path, *files, "-n", "1", "--dist", "loadfile")
    assert code == 1
    assert "mlp-encoder/one_token" in output and "1 failed" in output
    assert "taps compared in 2 cases; largest share of a budget" in output and "mlp.act" in output


def test_workers_are_summed_up_a_golden_that_two_of_them_judged_once() -> None:
    config: Any = SimpleNamespace(stash=pytest.Stash())
    plugin.pytest_configure(config)
    one, text = ("encoder/one", 3, 4, 0.5, "logits"), ("tokenization/two", 5, 5, None, "")
    for sent in ({"a": one}, {"a": one, "b": text}):
        plugin.pytest_testnodedown(SimpleNamespace(config=config, workeroutput={plugin.SENT: sent}))
    plugin.pytest_testnodedown(SimpleNamespace(config=config))  # a worker that died
    written: list[str] = []
    reporter: Any = SimpleNamespace(section=written.append, write_line=written.append)
    plugin.pytest_terminal_summary(reporter, config)
    assert written == [
        "parity",
        "8 of 9 taps compared in 2 cases; largest share of a budget 0.5 at logits of encoder/one",
    ]
