"""Our implementation imported with one module's text replaced, in a process that is thrown away afterwards."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

PACKAGE = "qwen3_encdec"
_DEPENDENTS = (PACKAGE, "qwen3_parity.recording.ours", "qwen3_parity.recording.suite")
"""What holds our implementation's classes, and has to be imported again with it."""


def package_folder() -> Path:
    """Where our implementation's source is; it is not imported."""
    spec = find_spec(PACKAGE)
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


class _Text(SourceFileLoader):
    """A module of which another text than the file's is compiled."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds one module, by its full name."""

    def __init__(self, name: str, path: Path, text: str) -> None:
        self.name, self.path, self.text = name, path, text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return spec_from_file_location(fullname, self.path, loader=_Text(fullname, str(self.path), self.text))


def file_of(module: str) -> Path:
    """The file of `qwen3_encdec.<module>`."""
    return package_folder().joinpath(*module.split(".")).with_suffix(".py")


def install(module: str, text: str) -> None:
    """From now on `qwen3_encdec.<module>` has this text, for all who import it; for the rest of the process."""
    path = file_of(module)
    forget()
    sys.meta_path.insert(0, _Finder(f"{PACKAGE}.{module}", path, text))


def forget() -> None:
    """Make the next import of our implementation, and of what holds its classes, a fresh one."""
    for name in list(sys.modules):
        if name.startswith(_DEPENDENTS):
            del sys.modules[name]


@contextmanager
def lines_reached(folder: Path) -> Iterator[dict[str, set[int]]]:
    """The lines of a folder's modules that run inside the block, by dotted name below it."""
    reached: dict[str, set[int]] = defaultdict(set)
    prefix = str(folder)

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(prefix):
            return None
        if event == "line":
            path = Path(frame.f_code.co_filename).relative_to(folder)
            reached[".".join(path.with_suffix("").parts)].add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield reached
    finally:
        sys.settrace(before)
