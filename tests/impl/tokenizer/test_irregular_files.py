"""A tokenizer's folder is read from regular files of its own: nothing waits for a pipe, nothing leads out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qwen3_encdec.tokenizer import ByteLevelTokenizer, TokenizerError
from qwen3_golden import GOLDEN_ROOT, ParityError
from qwen3_golden.manifest import load
from qwen3_parity.recording.request import tokenize
from qwen3_reference.checkpoints.tokenizer_files import tokenizer_checkpoint
from qwen3_reference.tokenization.loading import load_tokenizer

TINY = GOLDEN_ROOT / "tokenizers" / "tiny"
FILE = "tokenizer.json"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def outside(path: Path) -> None:
    path.symlink_to(TINY / FILE)


IRREGULAR = pytest.mark.parametrize("put", [pipe, device, outside])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = Path(shutil.copytree(TINY, tmp_path / "x"))
    (made / FILE).unlink()
    return made


@IRREGULAR
def test_ours_refuses_what_is_no_file_of_the_folder(put: Callable[[Path], None], directory: Path) -> None:
    put(directory / FILE)
    with pytest.raises(TokenizerError, match="regular file"):
        ByteLevelTokenizer.from_directory(directory)


@IRREGULAR
def test_hugging_face_is_not_asked_to_read_it(put: Callable[[Path], None], directory: Path) -> None:
    put(directory / FILE)
    with pytest.raises(ParityError, match=r"regular file|leads out"):
        load_tokenizer(directory)


def test_texts_of_a_request_are_not_encoded_by_it(directory: Path) -> None:
    outside(directory / FILE)
    with pytest.raises(OSError, match="leads out"):
        tokenize(["a"], directory)


def test_its_digest_is_not_that_of_a_file_elsewhere(directory: Path) -> None:
    outside(directory / FILE)
    with pytest.raises(OSError, match="leads out"):
        tokenizer_checkpoint(directory)


@pytest.mark.parametrize("put", [pipe, device])
def test_a_manifest_is_a_regular_file(put: Callable[[Path], None], tmp_path: Path) -> None:
    put(tmp_path / "MANIFEST.textproto")
    with pytest.raises(ParityError, match="cannot be read"):
        load(tmp_path)
