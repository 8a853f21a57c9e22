"""Raw files with a table of names, shapes and dtypes: read as they stand, refused where table and bytes disagree."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dumped import Tensors, arrays, imported, verdict

from qwen3_golden import pb, read, to_float32

Rows = list[dict[str, Any]]


def as_json(rows: Rows) -> tuple[str, str]:
    return "table.json", json.dumps(rows)


def as_object(rows: Rows) -> tuple[str, str]:
    return "table.json", json.dumps({row["name"]: {k: v for k, v in row.items() if k != "name"} for row in rows})


def as_csv(rows: Rows, delimiter: str = ",") -> tuple[str, str]:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows({**row, "shape": "x".join(map(str, row["shape"]))} for row in rows)
    return "shapes.csv", text.getvalue()


def as_tsv(rows: Rows) -> tuple[str, str]:
    return "shapes.tsv", as_csv(rows, "\t")[1]


def written(folder: Path, tensors: Tensors, table: Callable[[Rows], tuple[str, str]], *, in_one: bool) -> Path:
    """The dump's folder: a file an array, or all arrays in one file behind each other."""
    folder.mkdir(parents=True)
    rows, whole = Rows(), b""
    for name, array in arrays(tensors).items():
        row: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)}
        if in_one:
            row |= {"file": "all.bin", "offset": len(whole)}
            whole += array.tobytes()
        else:
            (folder / f"{name}.bin").write_bytes(array.tobytes())
        rows.append(row)
    if in_one:
        (folder / "all.bin").write_bytes(whole)
    file, text = table(rows)
    (folder / file).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("in_one", [False, True])
@pytest.mark.parametrize("table", [as_json, as_object, as_csv, as_tsv])
def test_raw_files_and_a_table_are_a_dump(
    table: Callable[[Rows], tuple[str, str]], in_one: bool, whole: Tensors, tmp_path: Path
) -> None:
    folder = written(tmp_path / "dump", whole, table, in_one=in_one)
    verdicts = verdict(folder)
    assert verdicts.word == "parity" and verdicts.compared > 200
    (listing,) = [path for path in folder.iterdir() if path.suffix != ".bin"]
    (folder / "other.npy").write_bytes(b"")  # a table that is given by itself is read whatever lies beside it
    assert verdict(listing).compared == verdicts.compared


def test_folders_and_a_column_say_which_forward_it_is(steps: list[Tensors], tmp_path: Path) -> None:
    for number, forward in enumerate(steps):
        written(tmp_path / "folders" / f"step{number}", forward, as_json, in_one=True)
    compared = verdict(tmp_path / "folders").compared
    rows, content = Rows(), b""
    for number, forward in enumerate(steps):
        for name, array in arrays(forward).items():
            row = {"name": name, "shape": list(array.shape), "dtype": "F32", "file": "all.bin", "offset": len(content)}
            rows.append({**row, "forward": number})
            content += array.tobytes()
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "all.bin").write_bytes(content)
    (tmp_path / "one" / "t.json").write_text(json.dumps(rows))
    verdicts = verdict(tmp_path / "one")
    assert verdicts.word == "parity" and verdicts.compared == compared > 200


def test_bfloat16_is_read_as_its_bits(whole: Tensors, tmp_path: Path) -> None:
    halves = {name: tensor.to(torch.bfloat16) for name, tensor in whole.items()}
    (tmp_path / "dump").mkdir()
    rows = Rows()
    for name, tensor in halves.items():
        (tmp_path / "dump" / f"{name}.bin").write_bytes(tensor.view(torch.int16).numpy().tobytes())
        rows.append({"name": name, "shape": list(tensor.shape), "dtype": "torch.bfloat16"})
    (tmp_path / "dump" / "t.json").write_text(json.dumps(rows))
    assert imported(tmp_path / "dump").exit_code == 0
    recording = read(tmp_path / "candidate.pb")
    expected = halves["lm_head"][:, : recording.case.steps[0]].float().numpy()
    assert recording.run.arithmetic == pb.ARITHMETIC_BF16
    assert np.array_equal(to_float32(recording["logits", 0].array), expected)


ROW: dict[str, Any] = {"name": "lm_head", "shape": [1, 9, 211], "dtype": "float32"}
BYTES = bytes(9 * 211 * 4)
REFUSED: dict[str, tuple[str, str, bytes, str]] = {
    "no table": ("", "", BYTES, "one table beside them"),
    "no json": ("t.json", "{", BYTES, "no table of arrays"),
    "a number": ("t.json", "3", BYTES, "no table of arrays"),
    "rows of numbers": ("t.json", "[1, 2]", BYTES, "no table of arrays"),
    "no rows": ("t.json", "[]", BYTES, "no rows"),
    "a name twice": ("t.json", json.dumps([ROW, ROW]), BYTES, "stands once in a forward"),
    "an object with a name twice": ("t.json", '{"a": {}, "a": {}}', BYTES, "no table of arrays"),
    "another column": ("t.json", json.dumps([ROW | {"pickle": "x"}]), BYTES, "columns that nobody reads"),
    "no dtype": ("t.json", json.dumps([ROW | {"dtype": "object"}]), BYTES, "no row of a table"),
    "no shape": ("t.json", json.dumps([ROW | {"shape": "1x-9"}]), BYTES, "no row of a table"),
    "a shape of texts": ("t.json", json.dumps([ROW | {"shape": ["a"]}]), BYTES, "no row of a table"),
    "no name": ("t.csv", "name,shape,dtype\n,1x9x211,f32\n", BYTES, "no row of a table"),
    "an offset of text": ("t.json", json.dumps([ROW | {"offset": "-1"}]), BYTES, "offset is no number"),
    "bytes too few": ("t.json", json.dumps([ROW]), BYTES[:-1], "disagrees"),
    "bytes too many": ("t.json", json.dumps([ROW]), BYTES + b"1234", "disagrees"),
    "an offset beyond": ("t.json", json.dumps([ROW | {"offset": 4}]), BYTES, "disagrees"),
    "a huge shape": ("t.json", json.dumps([ROW | {"shape": [10**11, 10**11]}]), BYTES, "disagrees"),
    "a path": ("t.json", json.dumps([ROW | {"file": "../lm_head.bin"}]), BYTES, "not beside the table"),
    "an absolute path": ("t.json", json.dumps([ROW | {"file": "/dev/zero"}]), BYTES, "not beside the table"),
    "an odd csv": ("t.csv", 'name,shape,dtype\n"a"b,1,f32\n', BYTES, "no table of arrays"),
    "a csv with more cells": ("t.csv", "name,shape,dtype\nlm_head,1,f32,x\n", BYTES, "columns that nobody reads"),
    "bytes that are no text": ("t.csv", "name\udcff", BYTES, "no table of arrays"),
}


@pytest.mark.parametrize("defect", REFUSED)
def test_a_table_that_is_not_what_the_bytes_are_is_refused(defect: str, tmp_path: Path) -> None:
    table, text, content, rule = REFUSED[defect]
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "lm_head.bin").write_bytes(content)
    if table:
        (tmp_path / "dump" / table).write_bytes(text.encode(errors="surrogateescape"))
    result = imported(tmp_path / "dump")
    assert isinstance(result.exception, SystemExit) and result.exit_code == 2, result.output
    assert rule in result.output and result.output.count("expected:") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["dump"]


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "lm_head.bin").symlink_to("/dev/zero")
    (tmp_path / "dump" / "t.json").write_text(json.dumps([ROW]))
    result = imported(tmp_path / "dump")
    assert result.exit_code == 2 and "leads out of its folder" in result.output


def test_kinds_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "lm_head.bin").write_bytes(BYTES)
    (tmp_path / "dump" / "t.json").write_text(json.dumps([ROW]))
    np.save(tmp_path / "dump" / "a.npy", np.zeros(2, np.float32))
    result = imported(tmp_path / "dump")
    assert result.exit_code == 2 and "files of several kinds" in result.output
