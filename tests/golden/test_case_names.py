"""The name of a case leads to no other file: what goes up, is absolute or names a file is refused where it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.message import Message

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read, write
from qwen3_golden.rules import check_metadata, is_plain_name

BAD = (
    "",
    "../../../mine",
    "op/../../mine",
    "/etc/passwd",
    "op/rope.pb",
    "op/rope.PB",
    "mine.pb",
    "..",
    ".",
    "op/.hidden",
    "op//rope",
    "op/",
    "op\\rope",
    "C:/rope",
    "op/ro\npe",
    "op/ro\x00pe",
    "op/ro\x1b[2Jpe",
    "op/ rope",
    "op/rope\u202e",
)
GOOD = ("op/rope", "models/qwen2.5-0.5b", "capture/request", "capture/my request 2", "weights/größe", "p")


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_leads_elsewhere_is_no_name(name: str) -> None:
    assert not is_plain_name(name)


@pytest.mark.parametrize("name", GOOD)
def test_a_plain_name_is_one(name: str) -> None:
    assert is_plain_name(name)


def test_every_committed_golden_stands_in_the_file_of_its_cases_plain_name() -> None:
    cases = GOLDEN_ROOT / "cases"
    names = {path: read(path).case.name for path in cases.rglob("*.pb")}
    assert names and all(is_plain_name(name) and path == cases / f"{name}.pb" for path, name in names.items())


def _forged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **fields: str) -> Path:
    """A golden with another name of its case, as a writer that checks nothing would write it."""
    golden = read(GOLDEN_ROOT / "cases" / "op" / "rope.pb")
    case = pb.Case.FromString(golden.case.SerializeToString())
    for field, value in fields.items():
        setattr(case, field, value)
    monkeypatch.setattr("qwen3_golden.writer.check_metadata", lambda *_: None)
    write(tmp_path / "forged.pb", Recording(case, golden.provenance, golden.run, golden.tensors))
    return tmp_path / "forged.pb"


@pytest.mark.parametrize("field", ["name", "after"])
def test_the_reader_refuses_it(field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _forged(tmp_path, monkeypatch, **{field: "../../mine"})
    with pytest.raises(ParityError, match="name of the case"):
        read(path)


def test_the_writer_does_not_write_it(tmp_path: Path) -> None:
    golden = read(GOLDEN_ROOT / "cases" / "op" / "rope.pb")
    golden.case.name = "../rope"
    with pytest.raises(ParityError, match="name of the case"):
        write(tmp_path / "c.pb", golden)
    assert not list(tmp_path.iterdir())


def test_nothing_else_of_the_metadata_is_looked_at_before() -> None:
    messages: list[Message] = [pb.Case(name="../x"), pb.Run()]
    with pytest.raises(ParityError, match="name of the case"):
        check_metadata("here", messages[0], messages[1], [])  # type: ignore[arg-type]
