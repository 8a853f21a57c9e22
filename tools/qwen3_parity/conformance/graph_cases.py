"""Fresh cases of any network: drawn from the free sizes of a golden's graph, with the golden's own checkpoint."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from qwen3_golden import Array, ParityError, Recording, read, write
from qwen3_parity.checkpoints.graph_weights import directory_of, weights_in
from qwen3_parity.checkpoints.weights import checkpoints_of
from qwen3_parity.conformance.drawn import lengths
from qwen3_parity.conformance.graph_golden import free_graph, golden_of
from qwen3_parity.conformance.graph_inputs import Room, Rows, inputs_of, room_of
from qwen3_parity.conformance.run import CHECKPOINT, GOLDEN


@dataclass(frozen=True)
class Source:
    """A golden that cases are drawn from, with the folder of its checkpoint and its weights by the graph's names."""

    golden: Recording
    directory: Path
    limits: Room
    weights: Mapping[str, Array]


@dataclass(frozen=True)
class GraphCase:
    """Rows for the network of a golden's file, and the seed that their ids come from.

    It names the file and holds nothing of it: hypothesis prints every field.
    """

    file: Path
    rows: Rows
    seed: int

    @property
    def source(self) -> Source:
        """What it is drawn from."""
        return source_of(self.file)

    @property
    def kind(self) -> str:
        """What a port may not support."""
        return self.source.golden.graph.architecture

    @property
    def name(self) -> str:
        """What its case is called: by all that was drawn."""
        return f"fresh/{self.kind}_{zlib.crc32(self._said.encode()):08x}"

    @property
    def _said(self) -> str:
        return f"{self.source.golden.case.name}: {self.rows}, seed {self.seed}"

    def write(self, folder: Path) -> None:
        """The case with its golden, and a link to its checkpoint."""
        source = self.source
        inputs = inputs_of(source.golden, source.limits, self.rows, self.seed)
        drawn = golden_of(source.golden, source.weights, inputs, self.name, self.seed)
        for checkpoint in drawn.case.checkpoint:
            checkpoint.name = CHECKPOINT
        drawn.case.description = f"Drawn from the graph of {self._said}."
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CHECKPOINT).symlink_to(source.directory.resolve(), target_is_directory=True)
        write(folder / GOLDEN, drawn)


@cache
def source_of(path: Path) -> Source:
    """What cases of a golden's network are drawn from.

    Raises `ParityError` for a golden with fixed sizes or inputs that are not drawn, and without its checkpoint.
    """
    golden = read(path, digests=True)
    free_graph(golden)
    directory = directory_of(golden, checkpoints_of(path))
    if directory is None:
        raise ParityError(
            path,
            "the checkpoint of the golden's model is not there",
            expected="a Hugging Face directory of the case's digest, beside the golden",
            got="none",
            next_step="put the golden into its checkpoint's folder, or beside it",
        )
    return Source(golden, directory, room_of(golden), weights_in(golden, directory))


def graph_cases(paths: Sequence[Path]) -> st.SearchStrategy[GraphCase]:
    """Cases of the networks of these goldens; raises `ParityError` as `source_of`."""
    for path in paths:
        source_of(path)
    return _cases(paths)


@st.composite
def _cases(draw: st.DrawFn, paths: Sequence[Path]) -> GraphCase:
    path = draw(st.sampled_from(paths))
    limits, batch = source_of(path).limits, draw(st.sampled_from((2, 1, 3)))
    rows = _lengths(draw, batch, limits.longest, padded=limits.masked)
    decoded = (draw(lengths(limits.longest).filter(_several)),) * batch if limits.merged else ()
    drawn_rows = Rows(rows, decoded, draw(st.sampled_from(limits.sides)), draw(st.booleans()))
    return GraphCase(path, drawn_rows, draw(st.integers(0, 999)))


def _lengths(draw: st.DrawFn, batch: int, longest: int, *, padded: bool) -> tuple[int, ...]:
    """The tokens of each row; one row has them all, and all do where nothing can be padded."""
    width = draw(lengths(longest).filter(_several))
    others = [draw(st.integers(1, width)) if padded else width for _ in range(batch - 1)]
    place = draw(st.integers(0, batch - 1))
    return (*others[:place], width, *others[place:])


def _several(length: int) -> bool:
    """Whether a length is one that a graph of free sizes is for: torch.export takes one position for another case."""
    return length > 1
