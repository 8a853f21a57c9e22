"""The contract that a verdict is judged by – goldens, budgets, names of taps – and whether it is the released one.

The manifest has the digest of every file; this package has the manifest's, in released.txt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from qwen3_golden.manifest import NAME, RELEASED, load
from qwen3_golden.recording import Recording
from qwen3_golden.taps import TABLES_ROOT

_TABLES = ("taps.textproto", "tolerances.textproto")
"""What every verdict is judged by, beside its golden."""


@dataclass(frozen=True, slots=True)
class Contract:
    """The SHA-256 of what a verdict was judged by, and the files of it that are not the released ones.

    `own_golden` is the case of a golden that is none of the release, as one that a user captured: its budgets are
    released, what it holds is not.
    """

    digest: str
    edited: tuple[str, ...] = ()
    own_golden: str = ""

    @property
    def short(self) -> str:
        """The first 12 digits, as people compare them."""
        return self.digest[:12]

    def __str__(self) -> str:
        if not self.edited and self.own_golden:
            return f"a golden of your own, {self.own_golden!a}, by the budgets as released (contract {self.short})"
        if not self.edited:
            return f"contract {self.short}, as released"
        remark = f"; {self.own_golden!a} is a golden of your own" if self.own_golden else ""
        are = "is not the released one" if len(self.edited) == 1 else "are not the released ones"
        return f"contract {self.short}: {', '.join(self.edited)} {are}, so nothing is called parity{remark}"

    @property
    def released(self) -> bool:
        """Whether everything that was judged by is as it was released, the golden too."""
        return not (self.edited or self.own_golden)


def contract_of(golden: Recording, root: Path = TABLES_ROOT) -> Contract:
    """The contract of a golden: the set whose tables are below `root`, those that budgets are read from, and the golden
    if it is one of the set.

    A golden of a name that the set does not have, a user's own, is nobody's edit, and nobody's release; neither is one
    that was read from no file. Raises `ParityError` without a manifest.
    """
    digests, edited, tables = _set(root)
    name = f"cases/{golden.case.name}.pb"
    wrong = dict(edited)
    if golden.digest and digests.get(name, golden.digest.hex()) != golden.digest.hex():
        wrong[name] = golden.digest.hex()
    own_golden = golden.case.name if name not in digests or not golden.digest else ""
    lines = [tables, *(f"{file} {digest}" for file, digest in sorted(wrong.items()))]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest() if wrong else tables
    return Contract(digest, tuple(sorted(wrong)), own_golden)


def released_cases(root: Path = TABLES_ROOT) -> list[str]:
    """The names of the cases of the set, by its manifest, whatever goldens are at hand; in order."""
    cases = (path for path in _set(root)[0] if path.startswith("cases/"))
    return [path.removeprefix("cases/").removesuffix(".pb") for path in sorted(cases)]


@cache
def _set(root: Path) -> tuple[Mapping[str, str], Mapping[str, str], str]:
    """The digests of the set's recordings by path, its edited tables with theirs, and the manifest's own digest."""
    entries = {entry.path: entry for entry in load(root).entry}
    manifest = hashlib.sha256((root / NAME).read_bytes()).hexdigest()
    edited = {} if manifest == RELEASED.read_text(encoding="ascii").strip() else {NAME: manifest}
    for name in _TABLES:
        digest = hashlib.sha256((root / name).read_bytes()).hexdigest()
        if name not in entries or entries[name].sha256 != digest:
            edited[name] = digest
    return {path: entry.digest for path, entry in entries.items() if entry.digest}, edited, manifest
