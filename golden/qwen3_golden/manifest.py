"""The list of every file of the golden set with its digest: what was lost, added or changed by accident shows.

`python -m qwen3_golden.manifest` verifies the set, `--write` writes golden/MANIFEST.textproto anew, and its digest, by
which a verdict says whether it was judged by the released set, into this package.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from google.protobuf import text_format

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError
from qwen3_golden.reader import read
from qwen3_golden.regular_file import open_regular
from qwen3_golden.taps import GOLDEN_ROOT
from qwen3_golden.whole import change_together, finish_change

NAME = "MANIFEST.textproto"
RELEASED = Path(__file__).with_name("released.txt")
"""Has the SHA-256 of the released manifest, hexadecimal."""
MAX_FILE_BYTES = 1_000_000
MAX_TOTAL_BYTES = 22_000_000
_FOLDERS = ("cases", "checkpoints", "tokenizers")
_FILES = ("bugs.textproto", "golden.proto", "models.textproto", "taps.textproto", "tolerances.textproto")
_NOTHING: Mapping[str, Path | None] = MappingProxyType({})
_HEAD = "# proto-file: golden.proto\n# proto-message: qwen3.golden.v1.Manifest\n\n"


def _paths(root: Path) -> Iterator[Path]:
    for folder in _FOLDERS:
        yield from (path for path in (root / folder).rglob("*") if path.is_file())
    yield from (root / name for name in _FILES if (root / name).is_file())


def _entry(name: str, path: Path) -> pb.Entry:
    with open_regular(path) as file:
        content = file.read()
    recording = path.suffix == ".pb" and name.startswith("cases/")
    digest = read(path).digest.hex() if recording else ""
    return pb.Entry(path=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest(), digest=digest)


def build(root: Path = GOLDEN_ROOT, instead: Mapping[str, Path | None] = _NOTHING) -> pb.Manifest:
    """The manifest of the data that lies under `root`; raises `ParityError` for a recording that cannot be read.

    `instead` has files that are to stand at some names (paths below `root`), None for those that are to go.
    """
    files: dict[str, Path | None] = {path.relative_to(root).as_posix(): path for path in _paths(root)}
    files |= instead
    return pb.Manifest(entry=[_entry(name, path) for name, path in sorted(files.items()) if path is not None])


def render(manifest: pb.Manifest) -> str:
    """The manifest as text, the same for the same manifest."""
    return _HEAD + text_format.MessageToString(manifest)


def load(root: Path = GOLDEN_ROOT) -> pb.Manifest:
    """The manifest that was written; raises `ParityError` when there is none or it is no manifest."""
    path = root / NAME
    try:
        with open_regular(path) as file:
            return text_format.Parse(file.read().decode(), pb.Manifest())
    except (OSError, ValueError, text_format.ParseError) as error:
        raise ParityError(
            path,
            "the manifest cannot be read",
            expected="a qwen3.golden.v1.Manifest in protobuf's text format",
            got=error,
            next_step="restore it, or write it with python -m qwen3_golden.manifest --write",
        ) from None


def verify(root: Path = GOLDEN_ROOT) -> None:
    """Compare the files under `root` with the manifest and their sizes with the limits.

    Raises one `ParityError` that names every file that is missing, extra, changed or too large.
    """
    finish_change(root)
    written = {entry.path: entry for entry in load(root).entry}
    paths = {path.relative_to(root).as_posix(): path for path in _paths(root)}
    sizes = {name: path.stat().st_size for name, path in paths.items()}
    wrong = [f"{name} is missing" for name in sorted(written.keys() - paths.keys())]
    wrong += [f"{name} is extra" for name in sorted(paths.keys() - written.keys())]
    for name in sorted(written.keys() & paths.keys()):
        if hashlib.sha256(paths[name].read_bytes()).hexdigest() != written[name].sha256:
            wrong.append(f"{name} has changed")
        elif _entry(name, paths[name]) != written[name]:
            wrong.append(f"{name} has another size or digest in the manifest")
    wrong += _too_large(sizes)
    if root == GOLDEN_ROOT and RELEASED.read_text(encoding="ascii").strip() != _released(root):
        wrong.append(f"{RELEASED.name} of the package has the digest of another manifest")
    if wrong:
        raise _refused(root, wrong)


def _too_large(sizes: Mapping[str, int]) -> list[str]:
    wrong = [f"{name} has {size} bytes" for name, size in sorted(sizes.items()) if size > MAX_FILE_BYTES]
    total = sum(sizes.values())
    return [*wrong, f"all files together have {total} bytes"] if total > MAX_TOTAL_BYTES else wrong


def _refused(root: Path, wrong: list[str]) -> ParityError:
    return ParityError(
        root,
        "the golden set is not what its manifest says, or is too large",
        expected=f"the files of {NAME}, {MAX_FILE_BYTES} bytes each and {MAX_TOTAL_BYTES} together at most",
        got="; ".join(wrong),
        next_step="restore the files, or accept the change with python -m qwen3_golden.manifest --write",
    )


def contents(root: Path = GOLDEN_ROOT, instead: Mapping[str, Path | None] = _NOTHING) -> dict[str, str | bytes | None]:
    """The manifest, and of the committed set its digest in this package, as files below `root`; see `build`.

    Raises `ParityError` for a set that would be too large.
    """
    manifest = build(root, instead)
    if too_large := _too_large({entry.path: entry.bytes for entry in manifest.entry}):
        raise _refused(root, too_large)
    text = render(manifest)
    files: dict[str, str | bytes | None] = {NAME: text}
    if root == GOLDEN_ROOT:
        files[RELEASED.relative_to(root).as_posix()] = hashlib.sha256(text.encode()).hexdigest() + "\n"
    return files


def write(root: Path = GOLDEN_ROOT) -> None:
    """Write the manifest of the files as they are, and verify that it may stand (see `verify` for what it raises)."""
    change_together(root, contents(root))
    verify(root)


def _released(root: Path) -> str:
    return hashlib.sha256((root / NAME).read_bytes()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Verify or write the manifest; 0 when all is well, 2 when not."""
    parser = argparse.ArgumentParser(prog="python -m qwen3_golden.manifest", description="Verify the golden set.")
    parser.add_argument("--write", action="store_true", help="write the manifest of the files as they are")
    parser.add_argument("--root", type=Path, default=GOLDEN_ROOT, help="the golden folder")
    options = parser.parse_args(arguments)
    try:
        if options.write:
            write(options.root)
        else:
            verify(options.root)
    except ParityError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(load(options.root).entry)} files are as {NAME} says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
