"""Which merges Hugging Face's BPE applies inside a pre-token. It tells the pieces alone, so it is asked repeatedly.

A piece is tokenized with the first k merges of the table for k = 0, 1, …: where one merge more makes n pieces fewer,
that merge was applied at n places. Only merges whose result stands in the piece can matter, so few tables are made.

This is exact if everything that makes a part of a merge has a lower rank than the merge itself. BPE always applies the
lowest rank that it finds. What a merge of rank r makes can then only take part in merges above r, so the ranks of a run
never fall, and the run with the first k merges is the beginning of the run with all. `merge_table` refuses others.

Pieces may be asked for one by one: no merge of the whole run crosses the border of two final pieces, so a run inside
one of them finds the same pairs at the same places, and the ranks of the whole are those of its pieces, sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tokenizers.models import BPE

from qwen3_golden import ParityError


@dataclass(frozen=True, eq=False)
class MergeTable:
    """`pairs` by rank, `makers` the ranks whose result is a piece. Made by `merge_table`."""

    pairs: Sequence[tuple[str, str]]
    makers: Mapping[str, Sequence[int]]
    _known: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)

    def applied(self, pieces: Iterable[str]) -> list[int]:
        """The ranks of the merges that led to these final pieces of a pre-token, in order, one for each place."""
        return sorted(rank for piece in pieces for rank in self._of_piece(piece))

    def _of_piece(self, piece: str) -> tuple[int, ...]:
        if piece not in self._known:
            inside = {piece[i:j] for i in range(len(piece)) for j in range(i + 2, len(piece) + 1)}
            ranks = sorted(rank for part in inside for rank in self.makers.get(part, ()))
            counts = [self._pieces_with(piece, ranks[:k]) for k in range(len(ranks) + 1)]
            places = [before - after for before, after in pairwise(counts)]
            if counts[-1] != 1:
                raise _bug(piece, "a piece of Hugging Face's BPE is none when it stands alone", 1, counts[-1])
            self._known[piece] = tuple(r for r, n in zip(ranks, places, strict=True) for _ in range(n))
        return self._known[piece]

    def _pieces_with(self, piece: str, ranks: Sequence[int]) -> int:
        """How many pieces Hugging Face's BPE makes of `piece` when the table has these merges alone."""
        pairs = [self.pairs[rank] for rank in ranks]
        entries = dict.fromkeys([*piece, *(part for pair in pairs for part in (*pair, "".join(pair)))])
        return len(BPE({entry: number for number, entry in enumerate(entries)}, pairs).tokenize(piece))


def merge_table(where: object, pairs: Sequence[tuple[str, str]]) -> MergeTable:
    """The table of `pairs` by rank; `ParityError` naming the first merge that a part of it is made after."""
    makers: dict[str, list[int]] = {}
    for rank, pair in enumerate(pairs):
        makers.setdefault("".join(pair), []).append(rank)
    for rank, pair in enumerate(pairs):
        late = max((maker for part in pair for maker in makers.get(part, ())), default=-1)
        if late >= rank:
            raise ParityError(
                where,
                f"merge {rank}, {' + '.join(pair)}, stands before one that makes a part of it",
                expected="parts that are made by lower ranks only",
                got=f"merge {late}, {' + '.join(pairs[late])}",
                next_step="the order of applied merges cannot be recorded for this vocabulary; train it anew",
            )
    return MergeTable(pairs, makers)


def _bug(where: str, rule: str, expected: object, got: object) -> ParityError:
    return ParityError(
        ascii(where), rule, expected=expected, got=got, next_step="report it with the text", fault="harness bug"
    )
