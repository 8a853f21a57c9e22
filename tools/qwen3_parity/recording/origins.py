"""The line of somebody's own code that makes a tap: looked for while a hook on it runs, once for each tap."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
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


def origin_of_module(module: nn.Module, path: str, *, is_argument: bool = False) -> Origin:
    """Where a module's forward begins; of torch's own, and of what goes in, the line that calls it."""
    code = None if is_argument else _forward_of(plain_module(module))
    if code is None or code.co_filename.startswith(_TORCH):
        frame = next(_callers(), None)
        return Origin(path) if frame is None else Origin(path, *_line(frame.f_code.co_filename, frame.f_lineno))
    return Origin(path, *_line(code.co_filename, code.co_firstlineno))


def origin_of_call(paths: Mapping[nn.Module, str]) -> Origin | None:
    """The line of a model's forward from which a function that is watched is called, and the path of its module."""
    for frame in _callers():
        module = frame.f_locals.get("self")
        path = paths.get(module) if isinstance(module, nn.Module) else None
        if path is not None:
            return Origin(path, *_line(frame.f_code.co_filename, frame.f_lineno))
    return None


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


def _line(file: str, number: int) -> tuple[str, int]:
    name = _shown(file, *(path for path in (*_here(), *sys.path) if isinstance(path, str) and path))
    return (name, number) if name else ("", 0)


def _here() -> Iterator[str]:
    with suppress(OSError):  # a folder that is gone
        yield str(Path.cwd())


@cache
def _shown(file: str, *roots: str) -> str:
    """A file below the folder where this runs or its package's, elsewhere its name; empty for what is no file."""
    path = Path(file)
    if not path.is_file():
        return ""
    below = [path.relative_to(root).as_posix() for root in roots if path.is_relative_to(root)]
    return min(below, key=len, default=path.name)
