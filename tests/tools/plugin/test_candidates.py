"""The same tests judge recordings that were made elsewhere, in one process or in several."""

from __future__ import annotations

import math
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
    """Exit code and output of `pytest ARGUMENTS --parity-candidate=FOLDER`."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        *arguments,
        f"--parity-candidate={folder}",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=GOLDEN_ROOT.parent, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_folder_of_recordings_is_judged_and_what_it_lacks_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    for golden, name in ((CASE, "any.pb"), (CASES / "encoder" / "ragged.pb", "encoder/name.pb")):
        (tmp_path / name).write_bytes(golden.read_bytes())
    files = [f"tests/parity/test_parity_{part}.py" for part in ("components", "engines")]
    code, output = judged(tmp_path, *files, "-p", "no:xdist")
    assert code == 0, output
    assert "taps compared in 2 cases; largest share of a budget 0 at" in output
    assert "skipped" in output and "deselected" in output
    assert "judged, 2: encoder/one_token, encoder/ragged" in output and "not delivered, " in output


@pytest.mark.slow
def test_a_worker_judges_and_what_it_found_is_printed(tmp_path: Path) -> None:
    golden = read(CASE)
    tensors = [Tensor(t.info, t.array * 2 if t.info.name.endswith("mlp.act") else t.array) for t in golden]
    write(tmp_path / "one_token.pb", Recording(golden.case, golden.provenance, golden.run, tensors))
    words = CASES / "tokenization" / "words.pb"
    (tmp_path / "words.pb").write_bytes(words.read_bytes())
    files = [f"tests/parity/test_parity_{part}.py" for part in ("components", "tokenization")]
    code, output = judged(tmp_path, *files, "-n", "1", "--dist", "loadfile")
    assert code == 1
    assert "1 failed" in output
    first = output.partition(" parity ===")[2].splitlines()[1]
    assert "encoder.layers.*.mlp.act" in first and "recorded at another place" in first
    assert "taps compared in 2 cases; largest share of a budget" in output and "mlp.act" in output


def test_workers_are_summed_up_a_golden_that_two_of_them_judged_once() -> None:
    config = configured(None)
    encoder, text = (
        ("encoder/one", 3, 4, 0.5, "logits", "contract 1"),
        ("tokenization/two", 5, 5, None, "", "contract 1"),
    )
    for sent in ({"a": encoder}, {"a": encoder, "b": text}):
        plugin.pytest_testnodedown(SimpleNamespace(config=config, workeroutput={plugin.SENT: sent}))
    plugin.pytest_testnodedown(SimpleNamespace(config=config))  # a worker that died
    assert summary(config) == [
        "parity",
        "8 of 9 taps compared in 2 cases; largest share of a budget 0.5 at logits of encoder/one",
        "judged by contract 1",
    ]


def configured(folder: Path | None) -> Any:
    """What pytest knows after its start with --parity-candidate=FOLDER."""
    options: dict[str, Any] = {
        "parity_candidate": folder,
        "parity_backend": "eager",
        "parity_partial": False,
        "parity_budget": math.inf,
        "tbstyle": "auto",
    }
    config: Any = SimpleNamespace(stash=pytest.Stash(), getoption=options.get, get_verbosity=lambda: 0)
    plugin.pytest_configure(config)
    return config


def summary(config: Any) -> list[str]:
    """The closing section."""
    written: list[str] = []
    reporter: Any = SimpleNamespace(section=written.append, write_line=written.append, stats={})
    for _ in plugin.pytest_terminal_summary(reporter, 0, config):
        pass  # what pytest prints itself
    return written


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(pytest.UsageError, match="nothing there"):
        configured(tmp_path / "nowhere")


def test_a_file_in_place_of_the_folder_is_an_error() -> None:
    with pytest.raises(pytest.UsageError, match="a file"):
        configured(CASE)


def test_a_folder_without_recordings_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no recording")
    with pytest.raises(pytest.UsageError, match="no recording to judge"):
        configured(tmp_path)


def test_a_recording_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "one_token.pb").write_bytes(CASE.read_bytes()[:-40])
    with pytest.raises(pytest.UsageError, match="one_token"):
        configured(tmp_path)


def test_a_recording_of_no_goldens_case_is_an_error(tmp_path: Path) -> None:
    golden = read(CASE)
    golden.case.name = "encoder/one_tokem"
    write(tmp_path / "one_token.pb", golden)
    with pytest.raises(pytest.UsageError, match="of no golden's case"):
        configured(tmp_path)


def test_two_recordings_of_one_case_are_an_error(tmp_path: Path) -> None:
    for name in ("a.pb", "b.pb"):
        (tmp_path / name).write_bytes(CASE.read_bytes())
    with pytest.raises(pytest.UsageError, match="two recordings are of one case"):
        configured(tmp_path)


def test_recordings_are_found_by_their_case_at_any_depth_whatever_their_files_are_called(tmp_path: Path) -> None:
    path = tmp_path / "run 7" / "out" / "x.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(CASE.read_bytes())
    assert plugin.Judge(configured(tmp_path), tmp_path).candidate(CASE) == path


@pytest.mark.parametrize("name", ["encoder/one_token", "plumbing/dtypes", "op/rope"])
def test_a_candidate_is_judged_and_the_summary_says_so(name: str, tmp_path: Path) -> None:
    golden = CASES / f"{name}.pb"
    (tmp_path / "any.pb").write_bytes(golden.read_bytes())
    config = configured(tmp_path)
    assert plugin.Judge(config, tmp_path)(golden).word == "parity"
    text = "\n".join(summary(config))
    assert f"judged, 1: {name}" in text and ": block/*, classic/*, " in text.partition("not delivered, ")[2]


def test_candidates_of_which_none_was_judged_are_a_failure(tmp_path: Path) -> None:
    (tmp_path / "any.pb").write_bytes(CASE.read_bytes())
    session: Any = SimpleNamespace(config=configured(tmp_path), exitstatus=0)
    plugin.pytest_sessionfinish(session)
    assert session.exitstatus == 1
    text = "\n".join(summary(session.config))
    assert "nothing was judged" in text and "no test of this run judged it, 1: encoder/one_token" in text


def test_a_run_without_candidates_fails_for_no_lack_of_them() -> None:
    session: Any = SimpleNamespace(config=configured(None), exitstatus=0)
    plugin.pytest_sessionfinish(session)
    assert session.exitstatus == 0
