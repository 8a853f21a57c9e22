"""Bugs in merging: the table read wrongly, another order, places forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text import tables
from detection.mutants.text.merging import (
    best_first,
    dropout,
    first_ranks_alone,
    longest_match,
    lowest,
    merging,
    rounds,
    unchecked_heap,
)
from detection.mutants.text.seeds import Seed, made, read_as

WORDS, MERGES, UNICODE, CODE = (f"tokenization/{name}" for name in ("words", "merges", "unicode", "code"))


def _wrong(name: str, says: str, seed: Seed, named: str, case: str = WORDS, wrong: str = "merges") -> Any:
    return entry(name, says, seed, wrong.split(), named, [case])


MUTANTS = (
    _wrong("TKM-01", "merges nothing", merging(tables.no_merges), "merges.missing"),
    _wrong("TKM-02", "reads no merge from its file", read_as(lambda files: replace(files, merges=[])),
           "merges.missing"),
    _wrong("TKM-04", "merges the leftmost pair first", merging(best_first(lambda rank, piece, at: at)),
           "merges.left_to_right"),
    _wrong(
        "TKM-04/right",
        "merges the rightmost pair first",
        merging(best_first(lambda rank, piece, at: -at)),
        "merges.right_to_left",
        wrong="merges ids",  # ranks do not say where they were merged: where they happen to be right, the ids are not
    ),
    _wrong("TKM-04/highest", "merges the highest rank first", merging(rounds(max)), "merges.highest_first"),
    _wrong("TKM-04/longest_pair", "merges the pair with the longest result first",
           merging(best_first(lambda rank, piece, at: -len(piece))), "merges.longest_first"),
    _wrong(
        "TKM-04/longest",
        "takes the longest entry from the left",
        made("merge", lambda one: longest_match(one.vocabulary)),
        "merges.longest_match ids.longest_match",
        wrong="merges ids",
    ),
    _wrong("TKM-05", "ranks merges by the id of what they make", tables.by(lambda one, piece: one.vocabulary[piece]),
           "merges.rank_by_id"),
    _wrong("TKM-05/rebuilt", "rebuilds merges from the ids", made("merge", tables.any_pair),
           "merges.rebuilt merges.rank_by_id"),
    _wrong("TKM-06", "looks up the rank of one symbol, not of two", merging(tables.single_window), "merges.missing"),
    _wrong("TKM-08", "counts the header of merges.txt as a merge",
           tables.table(lambda merges: [("#version:", "0.2"), *merges]), "merges.header_counted"),
    _wrong("TKM-08/hashes", "skips lines of merges.txt that begin with #",
           tables.table(lambda merges: [one for one in merges if not one[0].startswith("#")]),
           "merges.hash_lines_dropped", CODE),
    _wrong("TKM-09", "merges a rank at its first place alone", merging(rounds(once=True, again=False)),
           "merges.first_only", MERGES),
    _wrong("TKM-09/stale", "never looks up what merging brings together", merging(first_ranks_alone),
           "merges.not_refreshed"),
    _wrong("TKB-04", "reads merges as raw bytes", merging(lowest, tables.raw_pairs), "merges.raw_bytes", UNICODE),
    _wrong(
        "TKB-12",
        "reads its files in the platform's character set",
        made("merge", tables.of_other_platform),
        "merges.wrong_charset ids.wrong_charset",
        UNICODE,
        wrong="merges ids",
    ),
    _wrong("own/tokenizer-merge-rightmost", "merges the rightmost of equal ranks first", merging(rounds(right=True)),
           "merges.rightmost ids.rightmost", MERGES, "merges ids"),
    _wrong("own/tokenizer-merge-unchecked", "merges places that have changed since", merging(unchecked_heap),
           "merges.stale"),
    _wrong("own/tokenizer-ranks-as-text", "compares ranks as text",
           merging(best_first(lambda rank, piece, at: str(rank))), "merges.ranks_as_text"),
    _wrong("own/tokenizer-merge-limit", "merges eight times at most", merging(rounds(once=True, limit=8)),
           "merges.limited"),
    _wrong("own/tokenizer-merge-dropout", "leaves dropout on", merging(dropout), "merges.dropout"),
    _wrong("own/tokenizer-long-words", "does not merge in long words", made("merge", tables.short_words),
           "merges.limited", MERGES),
    _wrong("own/tokenizer-last-merge", "loses the last line of merges.txt", tables.table(lambda merges: merges[:-1]),
           "merges.truncated", MERGES),
    _wrong("own/tokenizer-merges-cut", "reads half of merges.txt",
           tables.table(lambda merges: merges[: len(merges) // 2]), "merges.truncated"),
    _wrong("own/tokenizer-whole-words", "looks up whole words first", made("merge", tables.whole_words),
           "ids.whole_word", MERGES, "ids"),
)  # fmt: skip
