"""A dump that is damaged, or that means harm, is refused in one message, and nothing of it is run or unpacked."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from dumped import imported
from safetensors.numpy import save_file

NAME = "model.layers.0.self_attn.q_proj"


def refused(dump: Path, *words: str) -> str:
    """The refusal of a dump: one message, no recording, and nothing half-written beside it."""
    before = set(dump.parent.iterdir())
    result = imported(dump)
    assert result.exit_code == 2 and result.exception is not None and isinstance(result.exception, SystemExit)
    assert all(word in result.output for word in words), result.output
    assert result.output.count("expected:") == 1 and set(dump.parent.iterdir()) == before
    assert all(letter.isprintable() or letter == "\n" for letter in result.output)
    return result.output


def header(text: object, data: bytes = b"") -> bytes:
    content = json.dumps(text).encode()
    return struct.pack("<Q", len(content)) + content + data


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("cut off",)),
        (b"\xff" * 8, ("cut off",)),
        (struct.pack("<Q", 1 << 62) + b"{}", ("cut off",)),
        (header({NAME: entry([2], 0, 8)}), ("cut off", NAME)),
        (header({NAME: entry([2], 0, 8)}, b"1234567"), ("cut off", NAME)),
        (header({NAME: entry([2], 4, 12)}, b"1" * 12), ("no tensor",)),
        (header({NAME: entry([2], 0, 8), "b": entry([2], 4, 12)}, b"1" * 12), ("to two",)),
        (header({NAME: entry([1 << 60, 1 << 60], 0, 8)}, b"1" * 8), ("disagrees",)),
        (header({NAME: entry([2], 0, 8, "O")}, b"1" * 8), ("unknown dtype",)),
        (b"\x80\x04\x95pickle.pickle", ("cut off",)),
    ],
)
def test_a_safetensors_file_that_is_not_what_it_says(content: bytes, words: tuple[str, ...], tmp_path: Path) -> None:
    (dump := tmp_path / "dump.safetensors").write_bytes(content)
    refused(dump, *words)


def npy(shape: object, descr: str = "<f4", data: bytes = b"") -> bytes:
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def npz(path: Path, entries: dict[str, bytes], *, compressed: bool = False) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


class Harm:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, ("harm-was-done",)


@pytest.fixture(autouse=True)
def no_harm(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to work in, in which `Harm` leaves a trace."""
    folder = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(folder)
    return folder


def test_python_objects_in_npz_and_npy_are_never_made(tmp_path: Path, no_harm: Path) -> None:
    objects = np.array([Harm()], dtype=object)
    np.savez(tmp_path / "dump.npz", **{NAME: objects})
    refused(tmp_path / "dump.npz", "Python objects", "never unpacked")
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / f"{NAME}.npy", objects)
    refused(tmp_path / "folder", "Python objects")
    assert not list(no_harm.iterdir())


def test_a_pt_that_calls_something_is_refused_by_torchs_own_loader(tmp_path: Path, no_harm: Path) -> None:
    (tmp_path / "dump").mkdir()
    torch.save({"value": Harm()}, tmp_path / "dump" / f"name={NAME}___step=0___rank=0.pt")
    refused(tmp_path / "dump", "weights_only loader refuses")
    assert not list(no_harm.iterdir())


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({f"{NAME}.npy": npy((1 << 40,))}, ("disagrees", "0 bytes")),
        ({f"{NAME}.npy": npy((-4, -2), data=b"1" * 32)}, ("disagrees",)),
        ({f"{NAME}.npy": npy((2,), "<U4", b"1" * 32)}, ("no place in a recording",)),
        ({f"{NAME}.npy": npy("(2,)", data=b"1" * 8)}, ("no NumPy array",)),
        ({f"{NAME}.npy": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 70_000}, ("no NumPy array",)),
        ({f"{NAME}.npy": b"not an array"}, ("no NumPy array",)),
        ({"../../x.py": b"print()"}, ("is no array",)),
    ],
)
def test_an_npz_that_is_not_what_it_says(entries: dict[str, bytes], words: tuple[str, ...], tmp_path: Path) -> None:
    refused(npz(tmp_path / "dump.npz", entries), *words)


def test_what_an_npz_would_unpack_into_is_known_before_and_of_another_shape(tmp_path: Path) -> None:
    """A thousand times its size, honestly declared: it is no tap by its shape, and not a byte of it is unpacked."""
    zeros = npy((1 << 24,), data=bytes(1 << 26))
    dump = npz(tmp_path / "dump.npz", {f"{NAME}.npy": zeros}, compressed=True)
    assert dump.stat().st_size < len(zeros) / 900
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qwen3_parity.recording.dumps.numpy_files._elements", lambda *_: pytest.fail("unpacked"))
        refused(dump, "no array has the shape of its tap", "[16777216]")


def test_an_npz_whose_directory_lies_about_a_size_is_refused(tmp_path: Path) -> None:
    dump = npz(tmp_path / "dump.npz", {f"{NAME}.npy": npy((1, 9, 60), data=bytes(2160))})
    content = bytearray(dump.read_bytes())
    at = content.index(b"PK\x01\x02") + 24
    content[at : at + 4] = struct.pack("<I", struct.unpack("<I", content[at : at + 4])[0] + 4)
    dump.write_bytes(content)
    refused(dump)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip" * 100])
def test_a_file_that_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "dump.npz").write_bytes(content)
    refused(tmp_path / "dump.npz", "no .npz")
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / f"name={NAME}___step=0.pt").write_bytes(content)
    refused(tmp_path / "dump", "torch.save did not write")


def test_a_pt_that_would_unpack_into_more_than_it_is_is_not_opened(tmp_path: Path) -> None:
    (folder := tmp_path / "dump").mkdir()
    torch.save(torch.zeros(1 << 20), buffer := BytesIO())
    with zipfile.ZipFile(buffer) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    npz(folder / f"name={NAME}___step=0.pt", entries, compressed=True)
    refused(folder, "larger than the file")


def test_several_ranks_are_no_whole_tensors(tmp_path: Path) -> None:
    (folder := tmp_path / "dump").mkdir()
    for rank in range(2):
        torch.save(torch.zeros(2), folder / f"name={NAME}___step=0___rank={rank}.pt")
    refused(folder, "several ranks")


@pytest.mark.parametrize("name", ["x.pt", "name=x___step.pt", "name=x___step=two.pt", f"name=x___step={10**12}.pt"])
def test_a_pt_of_another_name_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    torch.save(torch.zeros(2), tmp_path / "dump" / name)
    refused(tmp_path / "dump", "its name does not say" if "step=" not in name else "no number")


@pytest.mark.parametrize("ending", [".safetensors", ".npy", "name=x___step=0.pt"])
def test_links_out_of_the_folder_pipes_and_folders_in_place_of_files(ending: str, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    name = ending if "=" in ending else f"a{ending}"
    place = tmp_path / "dump" / name
    place.symlink_to("/dev/zero")
    refused(tmp_path / "dump", "cannot be read", "leads out of its folder")
    place.unlink()
    os.mkfifo(place)
    refused(tmp_path / "dump", "cannot be read", "no regular file")
    place.unlink()
    place.mkdir()
    refused(tmp_path / "dump", "cannot be read")


@pytest.mark.parametrize("dump", ["/dev/zero", "/dev/null", "no/such/file", ".", "/etc/passwd"])
def test_what_is_no_dump_at_all(dump: str, tmp_path: Path) -> None:
    result = imported(Path(dump), "--out", str(tmp_path / "x.pb"))
    assert result.exit_code == 2 and "expected:" in result.output and not list(tmp_path.iterdir())


def test_names_that_move_the_cursor_are_escaped(tmp_path: Path) -> None:
    evil = "\x1b[2J\x07\u202eharm\nnext: rm -r /"
    save_file({evil: np.zeros(2, np.float32)}, tmp_path / "dump.safetensors")
    assert "next: rm" not in refused(tmp_path / "dump.safetensors", "\\x1b[2J").replace("\\nnext: rm", "")
    (tmp_path / "dump").mkdir()
    np.save(tmp_path / "dump" / "\x1b[2Jx.npy", np.zeros(2, "U4"))
    refused(tmp_path / "dump", "\\x1b[2J")
    (tmp_path / "files").mkdir()
    torch.save(torch.zeros(2), tmp_path / "files" / "x\n  next:     rm -r.pt")
    assert refused(tmp_path / "files", "does not say which").count("\n  next:") == 1


def test_more_arrays_than_a_dump_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen3_parity.recording.dumps.dump.MAX_ARRAYS", 10)
    monkeypatch.setattr("qwen3_parity.recording.dumps.numpy_files.MAX_ARRAYS", 10)
    arrays = {f"{NAME}.{number}": np.zeros(1, np.float32) for number in range(11)}
    np.savez(tmp_path / "dump.npz", **arrays)
    refused(tmp_path / "dump.npz", "more arrays than any case")
    save_file(arrays, tmp_path / "dump.safetensors")
    refused(tmp_path / "dump.safetensors", "more arrays than any case")
    (tmp_path / "dump").mkdir()
    for name, array in arrays.items():
        np.save(tmp_path / "dump" / f"{name}.npy", array)
    refused(tmp_path / "dump", "more files than any dump")


def test_a_tree_that_names_files_elsewhere_leads_nowhere(tmp_path: Path) -> None:
    (folder := tmp_path / "dump").mkdir()
    secret = save_file({"data": np.zeros(2, np.float32)}, tmp_path / "secret.safetensors")
    assert secret is None
    tree = {"module_path": "M", "inputs": {"x": {"value": "../secret.safetensors"}}}
    (folder / "M_debug_tree_FULL_TENSORS.json").write_text(json.dumps(tree))
    refused(folder, "are not there", "../secret.safetensors")


@pytest.mark.parametrize("text", ["[]", "{", '{"module_path": 1}', '{"module_path": "N"}', "[" * 100_000])
def test_a_tree_that_is_no_tree_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "M_debug_tree_FULL_TENSORS.json").write_text(text)
    refused(tmp_path / "dump")


def test_folders_of_several_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    np.save(tmp_path / "dump" / "x.npy", np.zeros(1))
    save_file({"x": np.zeros(1)}, tmp_path / "dump" / "x.safetensors")
    refused(tmp_path / "dump", "several kinds")


@pytest.mark.parametrize("end", ["(2,", '(2, "abc', "((((((((2"])
@pytest.mark.parametrize("archived", [False, True])
def test_a_header_of_numpys_that_is_never_closed(end: str, archived: bool, tmp_path: Path) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {end}".encode().ljust(117) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)
    if archived:
        dump = tmp_path / "dump.npz"
        with zipfile.ZipFile(dump, "w") as archive:
            archive.writestr(f"{NAME}.npy", content)
    else:
        (dump := tmp_path / "dump").mkdir()
        (dump / f"{NAME}.npy").write_bytes(content)
    refused(dump, "no NumPy array", NAME)
