"""The tokenization cases, as data: which texts, ids, batches and conversations, on which committed tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from qwen3_golden import pb
from qwen3_reference.tokenization.conversations import conversations, members
from qwen3_reference.tokenization.decoding import piece_bytes
from qwen3_reference.tokenization.ids import added_decodings, decodings
from qwen3_reference.tokenization.loading import ReferenceTokenizer
from qwen3_reference.tokenization.texts import CODE, MERGES, NUMBERS, WHITESPACE, WORDS
from qwen3_reference.tokenization.texts_unicode import ADDED_TOKENS, OVERLAPS, SENTINELS, SPECIAL_TOKENS, UNICODE


@dataclass(frozen=True)
class TokenizationCase:
    """One case on the folder `tokenizer` of golden/tokenizers.

    `given` makes the fields marked "given" in the schema; it may ask the tokenizer which ids it has, draws from `seed`.
    """

    name: str
    description: str
    exposes: tuple[str, ...]
    message_of: Callable[[ReferenceTokenizer], pb.Tokenization]
    tokenizer: str = "tiny"
    seed: int = 0


def _encodings(texts: Mapping[str, str], split: bool = False) -> list[pb.Encoding]:
    return [
        pb.Encoding(name=f"{name}/split" if split else name, text=text, split_special_tokens=split)
        for name, text in texts.items()
    ]


def _texts(texts: Mapping[str, str]) -> Callable[[ReferenceTokenizer], pb.Tokenization]:
    return lambda _: pb.Tokenization(encoding=_encodings(texts))


def _both_ways(texts: Mapping[str, str]) -> Callable[[ReferenceTokenizer], pb.Tokenization]:
    """Special tokens found, and their names as plain text."""
    return lambda _: pb.Tokenization(encoding=[*_encodings(texts), *_encodings(texts, split=True)])


def _merges(reference: ReferenceTokenizer) -> pb.Tokenization:
    """Also what the last merges make, and the first entries that no merge makes: from text they never come."""
    makers, pairs = reference.merges.makers, reference.merges.pairs
    unmade = [
        piece
        for piece, number in sorted(reference.tokenizer.get_vocab().items(), key=lambda entry: entry[1])
        if len(piece) > 1 and piece not in makers and number not in reference.added
    ]
    return pb.Tokenization(
        encoding=[
            *_encodings(MERGES),
            *_encodings({f"merge/{rank}": piece_bytes("".join(pairs[rank])).decode() for rank in (-3, -2, -1)}),
            *_encodings({f"made_by_no_merge/{piece}": piece_bytes(piece).decode() for piece in unmade[:12]}),
        ]
    )


_ROWS = (
    "One.",
    "",
    "Several words, and 42 more of them.",
    "<|im_start|>user\nHi<|im_end|>",
    "padded <|endoftext|>",
    "<think> x </think>",
)

_LENGTHS = ((0, 0), (1, 0), (6, 0), (100, 0), (0, 8), (8, 8), (4, 2))
_UNEVEN = ((5, 4), (1, 8), (7, 3))
"""max_length and pad_to_multiple_of."""
_SIDES = ("left", "right")


def _cut_and_padded(lengths: Sequence[tuple[int, int]]) -> list[pb.Batch]:
    return [
        pb.Batch(
            name=f"pad_{padding}/cut_{cut}/length_{length}/multiple_{multiple}",
            text=_ROWS,
            padding_side=padding,
            truncation_side=cut,
            max_length=length,
            pad_to_multiple_of=multiple,
        )
        for padding, cut, (length, multiple) in product(_SIDES, _SIDES, lengths)
    ]


def _batches(_: ReferenceTokenizer) -> pb.Tokenization:
    batches = _cut_and_padded(_LENGTHS)
    shapes = {"one_row": ("alone",), "equal_rows": ("same", "same"), "empty_rows": ("", ""), "one_empty_row": ("",)}
    batches += [
        pb.Batch(name=f"{name}/pad_{side}", text=texts, padding_side=side, truncation_side="right")
        for (name, texts), side in product(shapes.items(), _SIDES)
    ]
    return pb.Tokenization(batch=batches)


_SEED = 9001

TOKENIZATION_CASES = (
    TokenizationCase(
        "tokenization/words",
        "Plain prose, contractions of every kind, spaces at both ends, the empty text.",
        (
            *("TOK-01", "TOK-02", "TOK-05", "TOK-08", "TOK-09", "TKM-01", "TKM-02", "TKM-04", "TKM-05", "TKM-06"),
            *("TKM-10", "TKB-12"),
        ),
        _texts(WORDS),
    ),
    TokenizationCase(
        "tokenization/code",
        "Source code and markup: operators, indents, brackets before newlines, runs of #.",
        ("TOK-02", "TOK-04", "TKM-05", "TKM-08", "TKM-10"),
        _texts(CODE),
    ),
    TokenizationCase(
        "tokenization/numbers",
        "Digits stand alone, in every script; dates, units, hexadecimal numbers.",
        ("TOK-02", "TOK-06", "TKS-14"),
        _texts(NUMBERS),
    ),
    TokenizationCase(
        "tokenization/whitespace",
        "Runs of spaces, tabs, CR LF, blank lines, and every white space that Unicode has.",
        ("TOK-02", "TOK-04", "TOK-06", "TOK-09", "TKM-10", "TKB-02", "TKB-12"),
        _texts(WHITESPACE),
    ),
    TokenizationCase(
        "tokenization/unicode",
        "Composed and decomposed letters, Hangul, many scripts, emoji, characters above U+FFFF, controls.",
        (
            *("TOK-06", "TOK-10", "TKB-01", "TKB-02", "TKB-04", "TKB-09", "TKB-12", "TKS-13", "TKS-14"),
            "TKM-01",
        ),
        _texts(UNICODE),
    ),
    TokenizationCase(
        "tokenization/added_tokens",
        "Added tokens that are not ASCII, with each of normalized, lstrip, rstrip and single_word.",
        ("TKS-06",),
        _both_ways(ADDED_TOKENS),
        tokenizer="tiny-added",
    ),
    TokenizationCase(
        "tokenization/merges",
        "Repeats, overlapping pairs, merges that begin with #, a run of 10,000 letters, entries that no merge makes.",
        ("TKM-01", "TKM-02", "TKM-04", "TKM-05", "TKM-06", "TKM-08", "TKM-09", "TKM-10", "TOK-01"),
        _merges,
    ),
    TokenizationCase(
        "tokenization/special_tokens",
        "Special tokens alone, adjacent, misspelt and between spaces; the same texts with their names as plain text.",
        ("TKS-01", "TKS-02", "TKS-06", "TKS-10", "TKS-17"),
        _both_ways(SPECIAL_TOKENS),
    ),
    TokenizationCase(
        "tokenization/sentinels",
        "Sentinels behind the padding rows: first, last, prefixes of one another, between spaces; also as plain text.",
        ("TKS-06", "TKS-08", "TKS-09", "TKS-10"),
        _both_ways(SENTINELS),
        tokenizer="tiny-sentinels",
    ),
    TokenizationCase(
        "tokenization/decoding",
        "Every id, every byte, characters cut at every byte, malformed UTF-8, special tokens kept and skipped.",
        ("TKB-05", "TKB-06", "TKB-08", "TKB-09", "TKB-10", "TKB-13"),
        lambda reference: pb.Tokenization(decoding=decodings(reference, _SEED)),
        seed=_SEED,
    ),
    TokenizationCase(
        "tokenization/batches",
        "Rows of unequal length padded and cut on either side, to multiples, with empty rows.",
        ("TKS-16",),
        _batches,
    ),
    TokenizationCase(
        "tokenization/chat",
        "The chat template: system, tools, several turns, reasoning in earlier turns, thinking on, off and absent.",
        ("TKS-01", "TKS-02", "TKS-04", "TKS-12", "TKS-17"),
        lambda _: pb.Tokenization(conversation=conversations()),
    ),
    TokenizationCase(
        "tokenization/added_overlaps",
        "Added tokens that begin one another, stand in one another or overlap themselves, inside of words and not.",
        ("TKS-06", "TKS-08"),
        _both_ways(OVERLAPS),
        tokenizer="tiny-overlaps",
    ),
    TokenizationCase(
        "tokenization/added_decoded",
        "Added tokens that are not ASCII as bytes and text: alone, between words, in a character, before more bytes.",
        ("TKB-05", "TKB-06"),
        lambda reference: pb.Tokenization(decoding=added_decodings(reference)),
        tokenizer="tiny-added",
    ),
    TokenizationCase(
        "tokenization/batch_lengths",
        "Rows that are cut to a length which is no multiple of what they are padded to.",
        ("TKS-16",),
        lambda _: pb.Tokenization(batch=_cut_and_padded(_UNEVEN)),
    ),
    TokenizationCase(
        "tokenization/chat_members",
        "Messages and tools as JSON: other names of reasoning, null, floats, keys that stand twice, no tools, no text.",
        ("TKS-02", "TKS-12"),
        lambda _: pb.Tokenization(conversation=members()),
    ),
)
