"""A folder that is judged brings no rule of its own: no configuration of pytest, no plugin, no module of Python.

Only the standard library is imported here: what else is imported may be the folder's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

_SEPARATE = "judge a folder of recordings alone; leave it out of PYTHONPATH, and run pytest elsewhere"


def configured_by(folder: Path, cwd: Path, read: Iterable[Path], tests: Collection[Path]) -> str:
    """The refusal of a run of pytest in the judged folder, or configured by it or by what lies above it; else "".

    `read` are the files that configured pytest, `tests` those that were asked for. What lies at or above the current
    directory, or the tests, is the user's own.
    """
    if _within(cwd, folder):
        rule = "pytest runs in the folder that it judges, and takes configuration and plugins from where it runs"
        there = f"cd {folder.resolve().parent} && pytest … --parity-candidate={folder.resolve()}"
        return _refused(folder, rule, "a current directory outside of it", cwd, there)
    for path in tests:
        if _within(path, folder):
            return _refused(folder, "its tests are to be run", "tests that are the judge's or yours", path, _SEPARATE)
    for file in read:
        users = any(_within(path, file.parent) for path in (cwd, *tests))
        if _within(file, folder) or (not users and _within(folder, file.parent)):
            rule, yours = "pytest was configured by the folder that it judges", "no configuration, or one that is yours"
            joined = f"join option and folder by =, or pytest looks beside it, too: --parity-candidate={folder}"
            return _refused(folder, rule, yours, file, joined)
    return ""


def imported_from(folder: Path) -> str:
    """The refusal of a run in which Python would import from the judged folder, or has; else ""."""
    for entry in sys.path:
        if _within(Path(entry or "."), folder):
            return _refused(folder, "Python imports from it", "a sys.path that leaves it out", entry or ".", _SEPARATE)
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and _within(Path(file), folder):
            return _refused(folder, f"its code was run, as the module {name}", "nothing of it is run", file, _SEPARATE)
    return ""


def _within(path: Path, folder: Path) -> bool:
    """Whether a path lies in a folder or is it, by name or behind links."""
    named = Path(os.path.normpath(path.absolute())).is_relative_to(os.path.normpath(folder.absolute()))
    return named or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))  # resolve() refuses circles


def _refused(folder: Path, rule: str, expected: str, got: object, next_step: str) -> str:
    """In the lines of a `ParityError`, which is not to be had without NumPy."""
    rule += "; no verdict of such a run counts"
    return ascii(str(folder))[1:-1] + f": {rule}\n  expected: {expected}\n  got:      {got}\n  next:     {next_step}"
