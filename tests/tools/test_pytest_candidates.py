"""The same tests judge recordings that were made elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, read, write

CASE = GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb"


def judged(folder: Path) -> tuple[int, str]:
    """Exit code and output of `pytest tests/parity --candidate FOLDER`."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/parity",
        "--candidate",
        str(folder),
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=GOLDEN_ROOT.parent, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", ["one_token.pb", "encoder/one_token.pb"])
def test_a_folder_of_recordings_is_judged_and_what_it_lacks_is_skipped(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(CASE.read_bytes())
    code, output = judged(tmp_path)
    assert code == 0, output
    assert "69 of 69 taps compared in 1 cases" in output and "skipped" in output and "deselected" in output


def test_a_recording_that_diverges_fails_in_the_component_that_is_wrong(tmp_path: Path) -> None:
    golden = read(CASE)
    tensors = [Tensor(t.info, t.array * 2 if t.info.name.endswith("mlp.act") else t.array) for t in golden]
    write(tmp_path / "one_token.pb", Recording(golden.case, golden.provenance, golden.run, tensors))
    code, output = judged(tmp_path)
    assert code == 1
    assert "mlp-encoder/one_token" in output and "1 failed" in output
