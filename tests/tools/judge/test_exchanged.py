"""What is no golden is refused by what only goldens have: `judge.exchanged`, and `judge.golden_path` of a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, read, write
from qwen3_parity.check import check
from qwen3_parity.cli import main
from qwen3_parity.judge.exchanged import is_golden
from qwen3_parity.judge.golden_path import golden_path

PLAIN = GOLDEN_ROOT / "cases" / "decoder" / "plain.pb"
GRAPH = GOLDEN_ROOT / "cases" / "model" / "gpt_oss.pb"


def as_recorded(path: Path, golden: Path) -> Path:
    """A golden as an implementation would record its case: no floors, no graph."""
    recording = read(golden)
    recording.provenance.producer = "port"
    recording.graph.Clear()
    for item in recording:
        item.info.ClearField("floor")
        item.info.ClearField("own_angles_floor")
    write(path, recording)
    return path


@pytest.mark.parametrize("golden", [PLAIN, GRAPH], ids=["table", "graph"])
@pytest.mark.parametrize("verb", ["check", "diagnose", "report"])
def test_a_golden_in_the_second_place_is_to_be_exchanged(golden: Path, verb: str, tmp_path: Path) -> None:
    candidate = as_recorded(tmp_path / "mine.pb", golden)
    done = CliRunner().invoke(main, [verb, str(candidate), str(golden)])
    assert done.exit_code == 2 and "is a recording of port, the second is a golden" in done.output, done.output
    assert f"exchange them: {golden} {candidate}" in done.output.replace("\n", "")


@pytest.mark.parametrize("golden", [PLAIN, GRAPH], ids=["table", "graph"])
def test_by_two_recordings_nothing_can_be_judged(golden: Path, tmp_path: Path) -> None:
    first, second = (as_recorded(tmp_path / name, golden) for name in ("a.pb", "b.pb"))
    for files in ([first, second], [first, tmp_path]):
        for verb in ("check", "diagnose"):
            done = CliRunner().invoke(main, [verb, *map(str, files)])
            assert done.exit_code == 2 and "no golden, so nothing can be judged by it" in done.output, done.output
    with pytest.raises(ParityError, match="no golden"):
        check(first, second)


@pytest.mark.parametrize("change", [lambda _: None, lambda recording: recording.graph.Clear()])
def test_every_committed_kind_of_golden_is_one(change: Callable[[Recording], None]) -> None:
    for path in (PLAIN, GRAPH, *sorted((GOLDEN_ROOT / "cases" / "op").glob("*.pb"))):
        golden = read(path)
        change(golden)
        assert is_golden(golden), path


def test_a_folder_is_the_golden_in_it(tmp_path: Path) -> None:
    (tmp_path / "golden.pb").write_bytes(GRAPH.read_bytes())
    assert golden_path(str(tmp_path)) == tmp_path / "golden.pb"
    with pytest.raises(ParityError, match="no golden of this name"):
        golden_path(str(tmp_path.parent))


@pytest.mark.parametrize("golden", [PLAIN, GRAPH], ids=["table", "graph"])
def test_the_golden_itself_is_parity_and_no_implementation(golden: Path, tmp_path: Path) -> None:
    for verb in ("check", "diagnose"):
        done = CliRunner().invoke(main, [verb, "--json", str(golden), str(golden)])
        assert done.exit_code == 0 and done.output.count("the candidate is the golden itself") == 2, done.output[-500:]


def test_another_checkpoints_recording_says_its_case(tmp_path: Path) -> None:
    recording = read(as_recorded(tmp_path / "mine.pb", GRAPH))
    recording.case.checkpoint[0].sha256 = bytes(32)
    recording.case.checkpoint[0].name = "elsewhere"
    recording.case.name = "my_case"
    with pytest.raises(ParityError, match=r"elsewhere 0{64}, of the case my_case"):
        check(read(GRAPH), recording)
