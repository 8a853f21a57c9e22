"""The manifest: it names what is missing, extra, changed or too large, and the committed set is as it says."""

import shutil
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, ParityError, manifest, read


@pytest.fixture
def root(golden: Path, tmp_path: Path) -> Path:
    """A golden folder with its manifest."""
    files = {
        "README.md": b"not data",
        "golden.proto": b"proto",
        "taps.textproto": b"taps",
        "tolerances.textproto": b"tolerances",
        "qwen3_golden/code.py": b"not data",
        "checkpoints/tiny/config.json": b"{}",
        "checkpoints/tiny/model.safetensors": bytes(100),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "cases" / "op").mkdir(parents=True)
    shutil.copy(golden, tmp_path / "cases" / "op" / "small.pb")
    assert manifest.main(["--write", "--root", str(tmp_path)]) == 0
    return tmp_path


def test_the_committed_set_is_as_its_manifest_says() -> None:
    manifest.verify(GOLDEN_ROOT)


def test_the_committed_manifest_is_what_would_be_written() -> None:
    text = (GOLDEN_ROOT / manifest.NAME).read_text(encoding="utf-8")
    assert text == manifest.render(manifest.build())


def test_every_data_file_is_listed_once_sorted_by_path(root: Path) -> None:
    assert [entry.path for entry in manifest.load(root).entry] == [
        "cases/op/small.pb",
        "checkpoints/tiny/config.json",
        "checkpoints/tiny/model.safetensors",
        "golden.proto",
        "taps.textproto",
        "tolerances.textproto",
    ]


def test_a_recording_is_listed_with_its_digest(root: Path) -> None:
    entry = manifest.load(root).entry[0]
    assert entry.digest == read(root / entry.path).digest.hex()
    assert entry.bytes == (root / entry.path).stat().st_size
    assert not any(other.digest for other in manifest.load(root).entry[1:])


def test_a_manifest_is_written_the_same_every_time(root: Path) -> None:
    assert manifest.render(manifest.build(root)) == (root / manifest.NAME).read_text(encoding="utf-8")


def test_what_is_whole_passes_on_the_command_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert manifest.main(["--root", str(root)]) == 0
    assert "6 files are as MANIFEST.textproto says" in capsys.readouterr().out


def test_every_difference_is_named_at_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "golden.proto").unlink()
    (root / "cases" / "op" / "new.pb").write_bytes(b"x")
    (root / "taps.textproto").write_bytes(b"spat")
    with pytest.raises(ParityError) as caught:
        manifest.verify(root)
    expected = "golden.proto is missing; cases/op/new.pb is extra; taps.textproto has changed"
    assert caught.value.got == expected
    assert manifest.main(["--root", str(root)]) == 2
    assert expected in capsys.readouterr().err


def test_a_wrong_digest_in_the_manifest_is_named(root: Path) -> None:
    changed = manifest.load(root)
    changed.entry[0].digest = "00" * 32
    (root / manifest.NAME).write_text(manifest.render(changed), encoding="utf-8")
    with pytest.raises(ParityError, match=r"small\.pb has another size or digest"):
        manifest.verify(root)


def test_a_file_that_is_too_large_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "MAX_FILE_BYTES", 99)
    (root / "cases" / "op" / "small.pb").unlink()
    with pytest.raises(ParityError, match=r"model\.safetensors has 100 bytes"):
        manifest.verify(root)


def test_a_set_that_is_too_large_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "MAX_TOTAL_BYTES", 1000)
    with pytest.raises(ParityError, match="all files together have"):
        manifest.verify(root)


@pytest.mark.parametrize("content", [None, "entry {", "case {}", b"\xff"])
def test_a_manifest_that_cannot_be_read_is_refused(content: str | bytes | None, root: Path) -> None:
    (root / manifest.NAME).unlink()
    if content is not None:
        (root / manifest.NAME).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ParityError, match="the manifest cannot be read"):
        manifest.verify(root)


def test_a_recording_that_cannot_be_read_is_not_listed(root: Path) -> None:
    (root / "cases" / "op" / "small.pb").write_bytes(b"x")
    with pytest.raises(ParityError, match="not a golden file"):
        manifest.build(root)
