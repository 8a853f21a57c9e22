"""The line of somebody's own code that makes a tap: looked for while a hook on it runs, once for each tap."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

import qwen3_reference
from qwen3_golden.origins import Origin
from qwen3_parity.recording.compiled import plain_module

_TORCH = str(Path(torch.__file__).parent) + os.sep
_HOOKS = tuple(str(Path(file).parent) + os.sep for file in (Path(__file__).parent, qwen3_reference.__file__ or ""))


class Lines:
    """Lines of source as a recording names them: below the folder in which it began, or that of their package."""

    def __init__(self) -> None:
        try:
            here = str(Path.cwd())
        except OSError:  # a folder that is gone
            here = ""
        self.roots = [root for root in (here, *sys.path) if isinstance(root, str) and root]
        self.names = dict[str, str]()

    def of_module(self, module: nn.Module, path: str, *, is_argument: bool = False) -> Origin:
        """Where a module's forward begins; of torch's own, and of what goes in, the line that calls it."""
        code = None if is_argument else _forward_of(plain_module(module))
        if code is not None and not code.co_filename.startswith(_TORCH):
            return self._origin(path, code.co_filename, code.co_firstlineno)
        frame = next(_callers(), None)
        return Origin(path) if frame is None else self._origin(path, frame.f_code.co_filename, frame.f_lineno)

    def of_call(self, paths: Mapping[nn.Module, str]) -> Origin | None:
        """The line of a model's forward from which a function that is watched is called, and its module's path."""
        for frame in _callers():
            module = frame.f_locals.get("self")
            path = paths.get(module) if isinstance(module, nn.Module) else None
            if path is not None:
                return self._origin(path, frame.f_code.co_filename, frame.f_lineno)
        return None

    def _origin(self, path: str, file: str, line: int) -> Origin:
        if file not in self.names:
            self.names[file] = _shown(Path(file), self.roots)
        name = self.names[file]
        return Origin(path, name, line) if name else Origin(path)


def _forward_of(module: nn.Module) -> Any:
    """The code of a module's forward below all that is wrapped around it, None of what is no function of Python's."""
    return getattr(inspect.unwrap(module.forward), "__code__", None)


def _callers() -> Iterator[FrameType]:
    """The frames around a hook that are neither ours nor torch's, the innermost first, up to the next of ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HOOKS):
        frame = frame.f_back
    while frame is not None and not frame.f_code.co_filename.startswith(_HOOKS):
        if not frame.f_code.co_filename.startswith(_TORCH):
            yield frame
        frame = frame.f_back


def _shown(file: Path, roots: Sequence[str]) -> str:
    """A file below the nearest of these folders, by its name alone below none; empty for what is no file."""
    if not file.is_file():
        return ""
    below = [file.relative_to(root).as_posix() for root in roots if file.is_relative_to(root)]
    return min(below, key=len, default=file.name)
