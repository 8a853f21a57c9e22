"""Recording the reference again: the same bytes, a difference that is seen, and a reason for every change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, Tensor, pb, read, write
from qwen3_parity.cli import main
from qwen3_parity.judge.selection import Selection
from qwen3_parity.recording.regenerate import GONE, MOVED, NEW, SAME, accept, differences, record_reference

NAME = "encoder/one_token"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A golden set of one case."""
    (tmp_path / "golden" / "cases" / "encoder").mkdir(parents=True)
    shutil.copyfile(GOLDEN_ROOT / "cases" / f"{NAME}.pb", tmp_path / "golden" / "cases" / f"{NAME}.pb")
    return tmp_path / "golden"


@pytest.fixture
def staging(root: Path, tmp_path: Path) -> Path:
    """The same set, recorded again."""
    shutil.copytree(root / "cases", tmp_path / "staging" / "cases")
    return tmp_path / "staging"


def alter(path: Path, change: float, *, elsewhere: bool) -> None:
    """Change one number of a recording, and perhaps where it was made."""
    golden = read(path)
    tensors = [Tensor(pb.Tensor.FromString(t.info.SerializeToString()), t.array.copy()) for t in golden]
    [last] = [t for t in tensors if t.info.name == "encoder.norm"]
    last.array.reshape(-1)[0] += np.float32(change)
    if elsewhere:
        golden.provenance.kernels = "another machine's"
    write(path, Recording(golden.case, golden.provenance, golden.run, tensors, golden.parameters))


def test_the_reference_records_the_committed_bytes_or_values_within_half_a_budget(tmp_path: Path) -> None:
    record_reference(tmp_path, Selection((NAME,)))
    [difference] = differences(tmp_path, selection=Selection((NAME,)))
    assert difference.kind == SAME


@pytest.mark.parametrize(("code", "fault"), [(2, "input"), (1, "harness bug")])
def test_a_selection_without_a_case_is_no_bug_of_ours(
    code: int, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the reference refuses ends with 2, what it trips over with 1."""
    ended = [sys.executable, "-c", f"raise SystemExit({code})"]
    real = subprocess.Popen
    monkeypatch.setattr("subprocess.Popen", lambda _, **options: real(ended, **options))
    with pytest.raises(ParityError, match="the reference could not be recorded") as error:
        record_reference(tmp_path / "staging", Selection(("no/such",)))
    assert error.value.fault == fault


def test_equal_files_are_the_same(root: Path, staging: Path) -> None:
    assert [d.kind for d in differences(staging, root)] == [SAME]


def test_one_other_bit_in_the_same_environment_is_a_difference(root: Path, staging: Path) -> None:
    alter(staging / "cases" / f"{NAME}.pb", 1e-6, elsewhere=False)
    assert [d.kind for d in differences(staging, root)] == [MOVED]


def test_another_environment_may_differ_by_half_a_budget(root: Path, staging: Path) -> None:
    alter(staging / "cases" / f"{NAME}.pb", 1e-7, elsewhere=True)
    assert [d.kind for d in differences(staging, root)] == [SAME]


def test_another_environment_may_not_differ_by_more(root: Path, staging: Path) -> None:
    alter(staging / "cases" / f"{NAME}.pb", 1e-2, elsewhere=True)
    assert [d.kind for d in differences(staging, root)] == [MOVED]


def altered_model(path: Path, change: Callable[[Recording], None], *, elsewhere: bool = True, torch: str = "") -> None:
    """A golden with a graph changed, and where it was made."""
    golden = read(path)
    tensors = [Tensor(pb.Tensor.FromString(t.info.SerializeToString()), t.array.copy()) for t in golden]
    golden = replace(golden, tensors=tensors)
    change(golden)
    golden.provenance.kernels = "another machine's" if elsewhere else golden.provenance.kernels
    for pair in golden.provenance.versions:
        pair.value = torch if torch and pair.key == "torch" else pair.value
    write(path, golden)


def noise(share: float) -> Callable[[Recording], None]:
    """The logits changed by a share of their floor."""

    def change(golden: Recording) -> None:
        item = golden["logits", 0]
        item.array[...] += np.float32(share * item.info.floor.rms)

    return change


def other_graph(golden: Recording) -> None:
    golden.graph.line[-1].number += 1


def other_floor(golden: Recording) -> None:
    golden["logits", 0].info.floor.rms *= 3


MODEL = "model/gemma3"


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    """A golden set of one case with a graph, and the same recorded again."""
    for side in ("golden", "staging"):
        (tmp_path / side / "cases" / "model").mkdir(parents=True)
        shutil.copyfile(GOLDEN_ROOT / "cases" / f"{MODEL}.pb", tmp_path / side / "cases" / f"{MODEL}.pb")
    return tmp_path / "golden", tmp_path / "staging"


@pytest.mark.parametrize(
    ("change", "origin", "kind", "text"),
    [
        (lambda golden: None, {}, SAME, "within half a budget"),
        (noise(0.1), {}, SAME, "within half a budget"),
        (noise(0.1), {"elsewhere": False}, MOVED, "other bytes in the same environment"),
        (noise(100), {}, MOVED, "more than half a budget"),
        (other_graph, {}, MOVED, "another graph of the same versions"),
        (other_graph, {"torch": "99"}, SAME, "within half a budget"),
        (other_floor, {}, MOVED, "another floor, first of logits (step 0)"),
    ],
)
def test_a_golden_with_a_graph_is_compared_by_values_graph_and_floors(
    models: tuple[Path, Path],
    change: Callable[[Recording], None],
    origin: dict[str, Any],
    kind: str,
    text: str,
) -> None:
    root, staging = models
    altered_model(staging / "cases" / f"{MODEL}.pb", change, **origin)
    [difference] = differences(staging, root)
    assert difference.kind == kind and text in difference.text


def test_a_case_with_other_inputs_is_a_difference_that_names_them(root: Path, staging: Path) -> None:
    path = staging / "cases" / f"{NAME}.pb"
    golden = read(path)
    tensors = [Tensor(t.info, t.array + (t.info.name == "input.encoder_input_ids")) for t in golden]
    tensors = [Tensor(t.info, t.array.astype(old.array.dtype)) for t, old in zip(tensors, golden, strict=True)]
    write(path, Recording(golden.case, golden.provenance, golden.run, tensors, golden.parameters))
    [difference] = differences(staging, root)
    assert difference.kind == MOVED and "input.encoder_input_ids" in difference.text


def test_a_case_on_one_side_alone_is_new_or_gone(root: Path, staging: Path) -> None:
    (staging / "cases" / f"{NAME}.pb").rename(staging / "cases" / "encoder" / "other.pb")
    assert [(d.name, d.kind) for d in differences(staging, root)] == [(NAME, GONE), ("encoder/other", NEW)]


def test_accepting_replaces_the_golden_and_writes_down_why(root: Path, staging: Path) -> None:
    alter(staging / "cases" / f"{NAME}.pb", 1e-2, elsewhere=False)
    accept(staging, differences(staging, root), "a better epsilon", root)
    assert (root / "cases" / f"{NAME}.pb").read_bytes() == (staging / "cases" / f"{NAME}.pb").read_bytes()
    assert "a better epsilon" in (root / "CHANGELOG.md").read_text()
    assert NAME in (root / "MANIFEST.textproto").read_text()


def test_the_newest_reason_stands_first(root: Path, staging: Path) -> None:
    for change, reason in ((1e-2, "first"), (2e-2, "second")):
        alter(staging / "cases" / f"{NAME}.pb", change, elsewhere=False)
        accept(staging, differences(staging, root), reason, root)
    text = (root / "CHANGELOG.md").read_text()
    assert 0 < text.index("## second") < text.index("## first")


@pytest.mark.parametrize("arguments", [["--accept"], ["--accept", "--reason", " "], ["--accept", "--check"]])
def test_nothing_is_accepted_without_a_reason(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["regenerate", *arguments]).exit_code == 2
