"""Which format a dump has, from its files alone."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from qwen3_parity.recording.dumps.debugger import TREE, read_debugger
from qwen3_parity.recording.dumps.dump import Dump, files, is_folder, listed, natural, reading, refused
from qwen3_parity.recording.dumps.numpy_files import read_npy, read_npys, read_npz
from qwen3_parity.recording.dumps.raw_files import ENDING, read_raw, table_of
from qwen3_parity.recording.dumps.safetensors_files import read_files

_WANTED = (
    "a .safetensors, an .npz, the table of raw files, or a folder of .safetensors, .npy, .bin with a table, "
    "SGLang's .pt or transformers' model debugger"
)
_ENDINGS = (".safetensors", ".npy", ".pt", ENDING)


def read_dump(path: Path, opened: ExitStack) -> Dump:
    """The arrays of a file or a folder, in whatever format it is; raises `ParityError` for none that is known.

    Folders in a folder without arrays of its own are the forwards, numbers in their names by value. The arrays can be
    loaded until `opened` is closed.
    """
    with reading(path):
        path = path.resolve(strict=True)
        folder = is_folder(path)
    if not folder:
        return _file(path, opened)
    dump = _folder(path)
    if dump is not None:
        return dump
    inside = sorted((child for child in listed(path) if is_folder(child)), key=lambda child: natural(child.name))
    dumps = [dump for child in inside if (dump := _folder(child)) is not None]
    if not dumps:
        raise refused(path, "there is no dump in this folder", _WANTED, "none", "give the folder with the files")
    kinds = sorted({dump.kind for dump in dumps})
    if len(kinds) > 1:
        raise refused(path, "its folders hold dumps of several kinds", "one kind", ", ".join(kinds))
    if any(dumped.forward for dump in dumps for dumped in dump.arrays):
        got = f"{len(dumps)} folders with several forwards each"
        raise refused(path, "it holds several dumps", "one run of the case", got, "give the folder of one run")
    arrays = [replace(dumped, forward=number) for number, dump in enumerate(dumps) for dumped in dump.arrays]
    return Dump(path, kinds[0], arrays)


def _file(path: Path, opened: ExitStack) -> Dump:
    match path.suffix:
        case ".safetensors":
            return Dump(path, "safetensors", read_files([path]))
        case ".npz":
            return Dump(path, "NumPy", read_npz(path, opened))
        case ".npy":
            return Dump(path, "NumPy", [read_npy(path)])
        case ".json" | ".csv" | ".tsv":
            return Dump(path, "raw", read_raw(path))
    raise refused(path, "this is no dump that can be read", _WANTED, path.name, "save the tensors as safetensors")


def _folder(path: Path) -> Dump | None:
    trees = files(path, TREE)
    if len(trees) > 1:
        raise refused(path, "the folder has the trees of several models", "one", ", ".join(tree.name for tree in trees))
    if trees:
        return Dump(path, "transformers' model debugger", read_debugger(trees[0]))
    by_ending = {ending: paths for ending in _ENDINGS if (paths := files(path, ending))}
    if len(by_ending) > 1:
        raise refused(path, "the folder has files of several kinds", "one kind", ", ".join(by_ending))
    if ".pt" in by_ending:
        from qwen3_parity.recording.dumps.sglang import read_sglang

        return Dump(path, "SGLang", read_sglang(by_ending[".pt"]))
    if ENDING in by_ending:
        return Dump(path, "raw", read_raw(table_of(path)))
    if ".safetensors" in by_ending:
        return Dump(path, "safetensors", read_files(by_ending[".safetensors"]))
    return Dump(path, "NumPy", read_npys(by_ending[".npy"])) if by_ending else None
