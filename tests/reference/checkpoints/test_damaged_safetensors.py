"""A safetensors file or an index that is damaged is refused, whatever the damage, and never read as something else."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qwen3_golden import ParityError
from qwen3_reference.checkpoints.stored import read_config, read_directory, weight_files
from qwen3_reference.checkpoints.weights import stored_tensors

Header = dict[str, Any]
NORM, K_NORM = "model.norm.weight", "model.layers.0.self_attn.k_norm.weight"


@pytest.fixture
def directory(checkpoints: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoints / "even-window", tmp_path / "x"))


@pytest.fixture
def sharded(checkpoints: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoints / "window-encoder", tmp_path / "x"))


def taken_apart(directory: Path) -> tuple[Header, bytes]:
    content = (directory / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:start]), content[start:]


def put_together(directory: Path, header: bytes, data: bytes) -> None:
    (directory / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)


def refused(directory: Path, *words: str) -> None:
    with pytest.raises(ParityError) as caught:
        read_directory(directory)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_file_that_is_put_together_again_is_read(directory: Path) -> None:
    before = read_directory(directory)[NORM].bits.copy()
    header, data = taken_apart(directory)
    put_together(directory, json.dumps(header, indent=3).encode() + b" \n", data)
    assert np.array_equal(read_directory(directory)[NORM].bits, before)


@pytest.mark.parametrize("text", [b"[]", b"1", b'"x"', b"null", b"{", b"\xff\xfe", b"", b"[" * 100_000])
def test_a_header_that_is_no_json_object_is_refused(text: bytes, directory: Path) -> None:
    put_together(directory, text, taken_apart(directory)[1])
    refused(directory, "header")


def test_a_name_that_stands_twice_in_one_header_is_named(directory: Path) -> None:
    header, data = taken_apart(directory)
    entry = json.dumps(header[NORM])
    text = json.dumps(header)[:-1] + f', "{NORM}": {entry}}}'
    put_together(directory, text.encode(), data)
    refused(directory, "twice", NORM)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {},
        {"dtype": "F32", "shape": [40]},
        {"dtype": 4, "shape": [40], "data_offsets": [0, 160]},
        {"dtype": ["F32"], "shape": [40], "data_offsets": [0, 160]},
        {"dtype": "F32", "shape": 40, "data_offsets": [0, 160]},
        {"dtype": "F32", "shape": ["40"], "data_offsets": [0, 160]},
        {"dtype": "F32", "shape": [-5, -8], "data_offsets": [0, 160]},
        {"dtype": "F32", "shape": [40.0], "data_offsets": [0, 160]},
        {"dtype": "F32", "shape": [True, 40], "data_offsets": [0, 160]},
        {"dtype": "F32", "shape": [40], "data_offsets": [0, 160, 320]},
        {"dtype": "F32", "shape": [40], "data_offsets": [0, "160"]},
        {"dtype": "F32", "shape": [40], "data_offsets": [-160, 0]},
    ],
    ids=str,
)
def test_a_damaged_entry_is_named(entry: object, directory: Path) -> None:
    header, data = taken_apart(directory)
    header[NORM] = entry
    put_together(directory, json.dumps(header).encode(), data)
    refused(directory, f"entry of {NORM} is damaged")


@pytest.mark.parametrize("code", ["I8", "F8_E4M3", "f32"])
def test_a_dtype_that_no_checkpoint_has_is_named(code: str, directory: Path) -> None:
    header, data = taken_apart(directory)
    header[NORM]["dtype"] = code
    put_together(directory, json.dumps(header).encode(), data)
    refused(directory, NORM, "unknown dtype", code)


def moved(change: Callable[[list[int]], list[int]]) -> Callable[[Header], None]:
    def edit(header: Header) -> None:
        header[NORM]["data_offsets"] = change(header[NORM]["data_offsets"])

    return edit


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (moved(lambda at: [at[0] + 4, at[1] + 4]), "to no tensor, or to two"),
        (moved(lambda at: [0, at[1] - at[0]]), "to no tensor, or to two"),
        (moved(lambda at: [at[0], at[1] + 4]), "disagrees with its shape"),
        (moved(lambda at: [1 << 62, (1 << 62) + at[1] - at[0]]), "to no tensor, or to two"),
        (lambda header: header.pop(NORM), "to no tensor, or to two"),
    ],
    ids=["late", "over another", "too long", "far away", "not listed"],
)
def test_data_that_tensors_do_not_cover_exactly_once_is_refused(
    change: Callable[[Header], None], rule: str, directory: Path
) -> None:
    header, data = taken_apart(directory)
    change(header)
    put_together(directory, json.dumps(header).encode(), data)
    refused(directory, rule)


def test_two_tensors_of_the_same_bytes_are_refused(directory: Path) -> None:
    header, data = taken_apart(directory)
    header[K_NORM]["data_offsets"] = header["model.layers.0.self_attn.q_norm.weight"]["data_offsets"]
    put_together(directory, json.dumps(header).encode(), data)
    refused(directory, "to no tensor, or to two")


def index_of(directory: Path) -> tuple[Path, dict[str, str]]:
    path = directory / "model.safetensors.index.json"
    return path, json.loads(path.read_text())["weight_map"]


@pytest.mark.parametrize("got", ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"])
def test_an_index_that_has_a_tensor_in_the_wrong_file_is_refused_by_name(got: str, sharded: Path) -> None:
    path, places = index_of(sharded)
    wrong = next(name for name, file in places.items() if file != got)
    path.write_text(json.dumps({"weight_map": places | {wrong: got}}))
    refused(sharded, wrong, "at another place")


def test_an_index_that_lacks_a_tensor_or_has_one_too_many_is_refused_by_name(sharded: Path) -> None:
    path, places = index_of(sharded)
    path.write_text(json.dumps({"weight_map": {n: f for n, f in places.items() if n != NORM}}))
    refused(sharded, NORM, "nowhere")
    path.write_text(json.dumps({"weight_map": places | {"model.more.weight": places[NORM]}}))
    refused(sharded, "model.more.weight", "no file")


@pytest.mark.parametrize("name", ["../y.safetensors", "/y.safetensors", "sub/y.safetensors", "", "..", "config.json"])
def test_an_index_that_leads_out_of_the_directory_is_refused(name: str, sharded: Path) -> None:
    path, places = index_of(sharded)
    path.write_text(json.dumps({"weight_map": places | {NORM: name}}))
    with pytest.raises(ParityError, match="names no file of the directory"):
        weight_files(sharded)


def test_a_tied_head_of_equal_bits_is_accepted_whatever_the_bits_are(checkpoints: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(checkpoints / "tied-decoder", tmp_path / "x"))
    header, data = taken_apart(directory)
    content = bytearray(data)
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        begin = header[name]["data_offsets"][0]
        content[begin : begin + 8] = b"\x00\x00\xc0\x7f\x00\x00\x00\x80"  # NaN, -0.0
    put_together(directory, json.dumps(header).encode(), bytes(content))
    assert np.isnan(stored_tensors(directory)["lm_head.weight"].bits[0, 0])
    begin = header["lm_head.weight"]["data_offsets"][0]
    content[begin + 7] = 0  # 0.0: equal in value, not in bits
    put_together(directory, json.dumps(header).encode(), bytes(content))
    with pytest.raises(ParityError, match=re.escape("the head is tied but stored with other values")):
        stored_tensors(directory)


def test_a_name_that_stands_twice_in_the_index_is_refused(sharded: Path) -> None:
    index = sharded / "model.safetensors.index.json"
    text = index.read_text()
    name, file = next(iter(json.loads(text)["weight_map"].items()))
    index.write_text(text.replace('"weight_map": {', f'"weight_map": {{"{name}": "{file}", ', 1))
    refused(sharded, "a name twice", name)


def test_a_key_that_stands_twice_in_the_configuration_is_refused(directory: Path) -> None:
    path = directory / "config.json"
    path.write_text(path.read_text().replace("{", '{"hidden_size": 8, ', 1))
    with pytest.raises(ParityError, match="a name twice") as error:
        read_config(directory)
    assert "hidden_size" in str(error.value.got)
