"""Pre-tokens to ids, fast, and exactly what `merge` gives.

Merging ends in the only sequence of tokens of which each neighbouring two stay as they are when they are merged alone:
the first merge across any boundary between tokens would happen between these two alone as well. So instead of merging,
the longest token is taken at each place; where it does not stay beside the one before it, the next shorter one is;
where none does, the one before it is taken back. A place that was a dead end is never tried again: that is linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from .byte_symbols import SYMBOLS, to_symbols
from .merge import merge
from .merge_trees import MergeTrees, merge_trees

_KNOWN = 1 << 16  # Pre-tokens whose ids are kept; natural text comes back to some ten thousand.
_LONGEST = 64  # Characters: longer ones are not kept.


class PieceEncoder:
    """A function from a pre-token to its ids; what it has seen, it knows, within bounds."""

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> None:
        trees = merge_trees(merges)
        self._known = _Known(
            _Definition(vocabulary, merges) if trees is None else _LongestMatch(vocabulary, merges, trees)
        )

    def __call__(self, pre_token: str) -> tuple[int, ...]:
        """The ids of a pre-token."""
        return self._known[pre_token]

    def encode_all(self, pre_tokens: Iterable[str]) -> list[int]:
        """The ids of pre-tokens, one behind the other."""
        return list(chain.from_iterable(map(self._known.__getitem__, pre_tokens)))


class _Known(dict[str, tuple[int, ...]]):
    """The ids of pre-tokens seen lately."""

    def __init__(self, encode: _Definition | _LongestMatch) -> None:
        self._encode = encode

    def __missing__(self, pre_token: str) -> tuple[int, ...]:
        ids = self._encode(pre_token)
        if len(pre_token) <= _LONGEST:
            if len(self) >= _KNOWN:
                self.clear()
            self[pre_token] = ids
        return ids


class _Definition:
    """Merging itself, for merges that are not orderly."""

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> None:
        self._vocabulary = vocabulary
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}

    def __call__(self, pre_token: str) -> tuple[int, ...]:
        pieces, _ = merge(to_symbols(pre_token), self._ranks)
        return tuple([self._vocabulary[piece] for piece in pieces])


class _LongestMatch:
    """Longest match with backtracking, as above."""

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], trees: MergeTrees) -> None:
        self._trees = trees
        self._ids = [vocabulary[piece] for piece in chain(SYMBOLS, (left + right for left, right in merges))]
        self._sizes = [1] * len(self._ids)
        lengths: dict[bytes, set[int]] = {}
        for data, token in trees.tokens.items():
            self._sizes[token] = len(data)
            lengths.setdefault(data[:3], set()).add(len(data))
        # By the first three bytes: how long the tokens are that begin like this, the longest first.
        self._lengths = {start: tuple(sorted(sizes, reverse=True)) for start, sizes in lengths.items()}
        # The longest token that begins like a token and is shorter; -1 for a byte.
        self._shorter = [-1] * len(self._ids)
        for data, token in trees.tokens.items():
            if len(data) > 1:
                self._shorter[token] = self._longest(data[:-1], 0)

    def _longest(self, data: bytes, place: int) -> int:
        tokens = self._trees.tokens
        for length in self._lengths.get(data[place : place + 3], ()):
            token = tokens.get(data[place : place + length])
            if token is not None:
                return token
        token = tokens.get(data[place : place + 2])
        return data[place] if token is None else token

    def __call__(self, pre_token: str) -> tuple[int, ...]:
        data = pre_token.encode()
        ids = self._ids
        whole = self._trees.tokens.get(data)
        if whole is not None:
            return (ids[whole],)
        if not data:
            return ()
        longest, stay_apart = self._longest, self._trees.stay_apart
        sizes, shorter, end = self._sizes, self._shorter, len(data)
        tokens: list[int] = []
        dead: set[int] = set()  # Places from which no sequence of tokens goes on.
        place, last, token = 0, -1, longest(data, 0)
        while True:
            behind = place + sizes[token]
            if behind not in dead and (last < 0 or stay_apart(last, token)):
                tokens.append(token)
                if behind == end:
                    return tuple([ids[token] for token in tokens])
                place, last, token = behind, token, longest(data, behind)
                continue
            token = shorter[token]
            while token < 0:
                dead.add(place)
                token = tokens.pop()
                place -= sizes[token]
                last = tokens[-1] if tokens else -1
                token = shorter[token]
