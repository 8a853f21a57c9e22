"""Files of a tokenizer that are read wrongly: the whole tokenizer is built from what was read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from detection.mutants.text.seeds import Seed, read_as, wrong
from qwen3_encdec.tokenizer.files import TokenizerFiles

SENTINEL = re.compile(r"<extra_id_(\d+)>")
Merges = list[tuple[str, str]]


def _merged_by(change: Callable[[Merges], Merges]) -> Seed:
    return read_as(lambda files: replace(files, merges=change(files.merges)))


def _renumbered(number: Callable[[int, int, int, int], int]) -> Seed:
    """Sentinel i gets `number(i, how many, the first one's id, entries before them)`, in text and in decoding."""

    def change(files: TokenizerFiles) -> TokenizerFiles:
        indices = {
            token.id: int(match[1]) for token in files.added_tokens if (match := SENTINEL.fullmatch(token.content))
        }
        below = 1 + max({*files.vocabulary.values(), *(token.id for token in files.added_tokens)} - indices.keys())
        ids = {old: number(index, len(indices), min(indices), below) for old, index in indices.items()}
        added = sorted(
            (replace(token, id=ids.get(token.id, token.id)) for token in files.added_tokens), key=lambda token: token.id
        )
        vocabulary = {piece: ids.get(old, old) for piece, old in files.vocabulary.items()}
        return replace(files, added_tokens=tuple(added), vocabulary=vocabulary)

    return read_as(change)


def _settings(**change: Callable[[TokenizerFiles], Any]) -> Seed:
    return read_as(lambda files: replace(files, **{name: value(files) for name, value in change.items()}))


MUTANTS = (
    wrong("TKS-09", "numbers the sentinels downwards",
          _renumbered(lambda index, count, first, below: first + count - 1 - index), "segments",
          "segments.sentinels_descending", "sentinels"),
    wrong("TKS-09/from_one", "numbers the sentinels from 1",
          _renumbered(lambda index, count, first, below: first + index + 1), "segments",
          "segments.sentinels_off_by_one", "sentinels"),
    wrong("TKS-09/compact", "numbers the sentinels right behind the vocabulary, in the padding rows",
          _renumbered(lambda index, count, first, below: below + index), "segments", "segments.sentinels_compact",
          "sentinels"),
    wrong("TOK-02/digits_by_three", "groups digits by three",
          _settings(pattern=lambda files: files.pattern.replace(r"|\p{N}|", r"|\p{N}{1,3}|")), "pre_tokens",
          "pre_tokens.digits_by_three", "numbers"),
    wrong("TOK-08", "searches the pattern as a literal", _settings(pattern_is_literal=lambda files: True), "pre_tokens",
          "pre_tokens.missing", "words"),
    wrong("TKM-02", "reads no merge from its file", _merged_by(lambda merges: []), "merges", "merges.missing", "words"),
    wrong("TKM-08", "counts the header of merges.txt as a merge",
          _merged_by(lambda merges: [("#version:", "0.2"), *merges]), "merges", "merges.header_counted", "words"),
    wrong("TKM-08/hashes", "skips lines of merges.txt that begin with #",
          _merged_by(lambda merges: [pair for pair in merges if not pair[0].startswith("#")]), "merges",
          "merges.hash_lines_dropped", "code"),
    wrong("own/tokenizer-last-merge", "loses the last line of merges.txt", _merged_by(lambda merges: merges[:-1]),
          "merges", "merges.truncated", "merges"),
    wrong("own/tokenizer-merges-cut", "reads half of merges.txt", _merged_by(lambda merges: merges[: len(merges) // 2]),
          "merges", "merges.truncated", "words"),
    wrong("TKS-16", "pads with eos", _settings(pad_token=lambda files: files.eos_token), "batch", "batch.pad_is_eos",
          "batches"),
)  # fmt: skip
