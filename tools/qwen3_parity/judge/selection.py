"""Which cases a command takes: --only, --exclude and --without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from qwen3_golden import read
from qwen3_parity.judge.features import features


@dataclass(frozen=True)
class Selection:
    """Globs over cases' names of which one must match, those of which none may, and features that no case may have."""

    only: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    without: Sequence[str] = ()

    def takes(self, name: str, golden: Path | None) -> bool:
        """Whether a case is among them; without its golden (None) nothing is known of its features."""
        named = any(fnmatchcase(name, glob) for glob in self.only)
        if not named or any(fnmatchcase(name, glob) for glob in self.exclude):
            return False
        return not self.without or golden is None or not set(features(read(golden))) & set(self.without)

    def __str__(self) -> str:
        options = {"--only": self.only, "--exclude": self.exclude, "--without": self.without}
        return " ".join(f"{option} {glob}" for option, globs in options.items() for glob in globs)


EVERY = Selection()
