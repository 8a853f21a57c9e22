"""A pass over a network that may be interrupted: what it made, in a file for the layers that are finished.

The files are golden files. Beside taps they hold, as `state.<layer>.*`, what it takes to go on behind each layer
without computing it: its output, and what it gave the cache. Layers are counted as they run, over all steps.
A run that is begun again passes over the layers that it finds, drops what is tapped on the way, and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from qwen3_golden import Array, ParityError, Recording, Tensor, Writer, minor_of, pb, read, tensor

STATE = "state."
_END = f"{STATE}end"
SECONDS = 2.0
"""A file is closed behind the first layer that ends this long after the last file: a tiny model needs one file."""
BYTES = 1 << 28
"""A file is also closed when it has this many."""


class Pass:
    """One pass, `name`, its files in `folder`; a context manager. `request` has the metadata of the files.

    `advance` is told how many layers are done, each time one is. `finished` layers were found in the folder; `complete`
    says that the whole pass was, or that it has ended.
    """

    def __init__(
        self, folder: Path, name: str, request: Recording, advance: Callable[[int], None] = lambda _done: None
    ) -> None:
        self.folder = folder
        self.name = name
        self.request = request
        self.advance = advance
        self.complete = False
        self._parts: list[Recording] = []
        self._states: dict[int, dict[str, Tensor]] = {}
        for path in sorted(folder.glob(f"{name}-*.pb")):
            if not self._take(path):
                path.unlink()
        self.finished = self._first = len(self._states)
        self._at = 0
        self._writer: Writer | None = None
        self._bytes, self._since = 0, time.monotonic()
        if self._states:
            advance(self.finished)

    def _take(self, path: Path) -> bool:
        """Whether a file is whole and goes on where those before it end; if so, it counts."""
        if path != self._path(len(self._states)) or self.complete:
            return False
        try:
            recording = read(path)
        except ParityError:  # a machine that went down may leave a file without its bytes
            return False
        for item in recording:
            if item.info.name == _END:
                self.complete = True
            elif item.info.name.startswith(STATE):
                _, layer, key = item.info.name.split(".")
                self._states.setdefault(int(layer), {})[key] = item
        self._parts.append(recording)
        return True

    def _path(self, layer: int) -> Path:
        return self.folder / f"{self.name}-{layer:06}.pb"

    def _open(self) -> Writer:
        if self._writer is None:
            path, minor = self._path(self._first), minor_of(self.request.case)
            self._writer = Writer(path, digests=False, schema_minor=minor)
        return self._writer

    @property
    def layers(self) -> int:
        """How many layers are done."""
        return max(self.finished, self._at)

    def add(self, item: Tensor) -> None:
        """Write a tap, unless it belongs to what was finished before."""
        if self._at >= self.finished:
            self._open().add(item)
            self._bytes += item.info.bytes

    def stored_state(self) -> Mapping[str, Tensor] | None:
        """The state of the layer that comes next, if it was finished before."""
        return self._states[self._at] if self._at < self.finished else None

    def keep(self, key: str, array: Array, dtype: pb.DType | None = None) -> None:
        """Write a piece of the state behind the layer that runs; its bytes must not change."""
        self.add(tensor(f"{STATE}{self._at}.{key}", array, dtype=dtype))

    def leave(self) -> None:
        """The layer is done, its last tap handed over."""
        self._at += 1
        if self._at > self.finished:
            self.advance(self._at)
            if self._bytes >= BYTES or time.monotonic() - self._since >= SECONDS:
                self._close()

    def end(self) -> None:
        """The pass is done; from now on it is complete."""
        self._open().add(tensor(_END, np.zeros(0)))
        self._close()
        self.complete = True

    def _close(self) -> None:
        writer = self._open()
        writer.finish(self.request.case, self.request.provenance, self.request.run)
        self._stop()
        self._parts.append(read(writer.path))
        self._first, self._bytes, self._since = self._at, 0, time.monotonic()

    def _stop(self) -> None:
        if self._writer is not None:
            self._writer.__exit__(None, None, None)
            self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def __iter__(self) -> Iterator[Tensor]:
        """Everything but the states, in the order in which it was made, mapped from the files."""
        for part in self._parts:
            yield from (item for item in part if not item.info.name.startswith(STATE))
