"""Only regular files are read, and only those of a checkpoint's own folder: nothing waits, nothing leads out.

It runs `qwen3_encdec.regular_file`, too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT, ParityError, read
from qwen3_reference.checkpoints.weights import load_weights

SOURCE = GOLDEN_ROOT / "checkpoints" / "even-window"
FILES = ("config.json", "model.safetensors")


def ours(directory: Path) -> object:
    return load_qwen3(directory)


def theirs(directory: Path) -> object:
    return load_weights(None, directory)


READERS: list[Callable[[Path], object]] = [ours, theirs]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SOURCE, tmp_path / "x"))


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def outside(path: Path) -> None:
    path.symlink_to(SOURCE / path.name)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("put", [pipe, device, folder, outside])
def test_what_is_no_file_of_the_folder_is_refused(
    reader: Callable[[Path], object], file: str, put: Callable[[Path], None], directory: Path
) -> None:
    (directory / file).unlink()
    put(directory / file)
    with pytest.raises((ValueError, ParityError)) as caught:
        reader(directory)
    assert str(directory) in str(caught.value)


@pytest.mark.parametrize("reader", READERS)
def test_the_links_of_hugging_faces_hub_cache_are_followed(reader: Callable[[Path], object], tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "0123", tmp_path / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for path in SOURCE.iterdir():
        shutil.copyfile(path, blobs / f"blob-{path.name}")
        (snapshot / path.name).symlink_to(Path("..", "..", "blobs", f"blob-{path.name}"))
    assert reader(snapshot)


@pytest.mark.parametrize("put", [pipe, device, folder])
def test_a_recording_is_read_from_a_regular_file_alone(put: Callable[[Path], None], tmp_path: Path) -> None:
    put(tmp_path / "x.pb")
    with pytest.raises(ParityError, match="regular file"):
        read(tmp_path / "x.pb")


def test_a_link_to_a_recording_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.pb").symlink_to(next((GOLDEN_ROOT / "cases" / "encoder").glob("*.pb")))
    assert len(read(tmp_path / "x.pb").tensors)
