"""The digest of a tokenizer's files; nothing of them is loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

from qwen3_golden import pb
from qwen3_golden.regular_file import open_inside, sha256_of


def tokenizer_checkpoint(directory: Path) -> pb.Checkpoint:
    """The entry of a case for `directory`: its name, and the SHA-256 of the sorted lines "sha256  file name"."""
    files = [path for path in directory.iterdir() if path.is_file()]
    lines = []
    for path in files:
        with open_inside(path) as file:
            lines.append(f"{sha256_of(file)}  {path.name}\n")
    digest = hashlib.sha256("".join(sorted(lines)).encode("utf-8", "surrogateescape")).digest()
    return pb.Checkpoint(role="tokenizer", name=directory.name, sha256=digest)
