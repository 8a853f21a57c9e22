"""Merges as trees, and the one question that they answer: do two neighbouring tokens stay as they are?

Tokens have numbers here: a byte is itself, the token that the merge of rank r makes is 256 + r. So the token with the
larger number is the one that is made later. That presumes *orderly* merges: no two make the same token, and each is of
tokens that are made before. A trained vocabulary's are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .byte_symbols import SYMBOLS, to_bytes


@dataclass(frozen=True, slots=True)
class MergeTrees:
    """The parts of each token, by its number, and what it makes with others.

    left, right: its two parts; a byte is both of its own. merged: what it makes with each token on its right; None for
    most. tokens: those that merging their own bytes gives; other entries of a vocabulary never appear.
    """

    left: list[int]
    right: list[int]
    merged: list[dict[int, int] | None]
    tokens: dict[bytes, int]

    def stay_apart(self, first: int, second: int, before: int | None = None) -> bool:
        """Whether merging the bytes of two tokens gives just these two; `before`: by the merges before that token's.

        The merges are taken back, the latest first. If what then stands at the boundary could have been merged before
        the merge that was taken back, it would have been. Of equal merges the left one comes first.
        """
        left, right, merged = self.left, self.right, self.merged
        limit = len(left) if before is None else before
        while True:
            beside = merged[first]
            if beside is not None and beside.get(second, limit) < limit:
                return False
            if first > second:
                if first < 256:
                    return True
                limit, first = first, right[first]
            else:
                if second < 256:
                    return True
                limit, second = second + 1, left[second]


def merge_trees(merges: Sequence[tuple[str, str]]) -> MergeTrees | None:
    """The trees of merges given in symbols; None: they are not orderly."""
    numbers = {symbol: byte for byte, symbol in enumerate(SYMBOLS)}
    trees = MergeTrees(list(range(256)), list(range(256)), [None] * 256, {bytes([byte]): byte for byte in range(256)})
    for token, (left, right) in enumerate(merges, 256):
        first, second = numbers.get(left), numbers.get(right)
        if first is None or second is None or left + right in numbers:
            return None
        numbers[left + right] = token
        trees.left.append(first)
        trees.right.append(second)
        trees.merged.append(None)
        beside = trees.merged[first] = trees.merged[first] or {}
        beside[second] = token
    reached = set(range(256))
    for piece, token in numbers.items():
        parts = trees.left[token], trees.right[token]
        if token >= 256 and reached.issuperset(parts) and trees.stay_apart(*parts, token):
            reached.add(token)
            trees.tokens[to_bytes(piece)] = token
    return trees
