"""Checkpoints of any bits, and what `export` makes of them and of the committed ones."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from parts_on_disk import CHECKPOINTS, CODES, safetensors

from qwen3_golden import pb
from qwen3_golden.dtypes import NUMPY
from qwen3_golden.plumbing import special_bits
from qwen3_parity.checkpoints.export_weights import export_weights
from qwen3_reference.checkpoints.stored import read_directory


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """`drawn(dtype, shards)`: a checkpoint of any bits, NaN, -0.0, infinities and subnormals among them."""

    def make(dtype: str, shards: int) -> Path:
        directory = tmp_path_factory.mktemp("drawn") / f"{dtype}-{shards}"
        directory.mkdir()
        shutil.copy(CHECKPOINTS / "even-window" / "config.json", directory)
        code, draw = CODES[dtype], np.random.Generator(np.random.PCG64(7))
        item = NUMPY[code].itemsize
        special = np.array(special_bits(code), f"<u{item}")
        tensors = {}
        for name, one in read_directory(CHECKPOINTS / "even-window").items():
            bits = draw.integers(0, 256, (one.bits.size * item,), np.uint8).view(f"<u{item}").reshape(one.bits.shape)
            bits.reshape(-1)[: special.size] = special[: bits.size]
            tensors[name] = bits
        names = list(tensors)
        draw.shuffle(names)
        code_name = pb.DType.Name(code)
        if shards == 1:
            (directory / "model.safetensors").write_bytes(safetensors({n: tensors[n] for n in names}, code_name))
            return directory
        files = {f"model-{k + 1:05}-of-{shards:05}.safetensors": names[k::shards] for k in range(shards)}
        for file, members in files.items():
            (directory / file).write_bytes(safetensors({n: tensors[n] for n in members}, code_name))
        index = {"metadata": {}, "weight_map": {n: file for file, members in files.items() for n in members}}
        (directory / "model.safetensors.index.json").write_text(json.dumps(index) + "\n\n")
        return directory

    return make


@pytest.fixture(scope="session")
def committed_export(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`committed_export(name)`: a committed checkpoint, exported once in parts of about 60 kB; never changed."""
    known: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in known:
            known[name] = tmp_path_factory.mktemp("exported") / name
            export_weights(CHECKPOINTS / name, known[name], name, 60_000)
        return known[name]

    return get


@pytest.fixture
def exported(committed_export: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of the exported window-encoder (two safetensors files, several parts), to be spoilt."""
    return Path(shutil.copytree(committed_export("window-encoder"), tmp_path / "exported"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real checkpoints and tokenizers that QWEN3_PARITY_DATA names."""
    folder = os.environ.get("QWEN3_PARITY_DATA")
    if not folder:
        pytest.skip("QWEN3_PARITY_DATA is not set")
    return Path(folder)
