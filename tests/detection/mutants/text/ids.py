"""Bugs behind the merges: pieces get other ids, ids are added or cut off, offsets are counted in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text.seeds import Seed, around, behind, both, put
from qwen3_encdec.tokenizer.byte_symbols import BYTES
from qwen3_encdec.tokenizer.normalize import nfc
from qwen3_encdec.tokenizer.stages import Stages
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

WORDS, MERGES, UNICODE, CHAT = (f"tokenization/{name}" for name in ("words", "merges", "unicode", "chat"))
SPECIAL = "tokenization/special_tokens"
Span = tuple[int, int]


def _adds(before: Callable[[ByteLevelTokenizer], str], after: Callable[[ByteLevelTokenizer], str]) -> Seed:
    """Tokens at both ends of whatever is encoded; "" for none."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        first, last = ([tokenizer.id_of(name)] if name else [] for name in (before(tokenizer), after(tokenizer)))
        none = [(0, 0)]

        def stages(found: Stages) -> Stages:
            offsets = none * len(first) + found.offsets + none * len(last)
            return replace(found, ids=first + found.ids + last, offsets=offsets)

        both(behind("stages", stages), behind("encode", lambda ids: first + ids + last))(tokenizer)

    return seed


def _ids(change: Callable[[ByteLevelTokenizer, dict[str, int]], dict[str, int]]) -> Seed:
    """Another vocabulary to encode with; decoding keeps its own."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        tokenizer.vocabulary = change(tokenizer, dict(tokenizer.vocabulary))
        around("encode", lambda _, text, **asked: tokenizer.stages(text, **asked).ids)(tokenizer)

    return seed


def _by_rank(tokenizer: ByteLevelTokenizer, vocabulary: dict[str, int]) -> dict[str, int]:
    made_by_merge = {left + right: 256 + rank for rank, (left, right) in enumerate(tokenizer.files.merges)}
    return vocabulary | made_by_merge


def _bytes_by_value(tokenizer: ByteLevelTokenizer, vocabulary: dict[str, int]) -> dict[str, int]:
    return vocabulary | dict(BYTES)


def _by_order(tokenizer: ByteLevelTokenizer, vocabulary: dict[str, int]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(sorted(vocabulary))}


def _colliding(tokenizer: ByteLevelTokenizer) -> None:
    """A cache whose keys are shared by different pre-tokens."""
    cache: dict[tuple[str, str, int], tuple[int, ...]] = {}
    encoder = tokenizer._piece_encoder

    class Encoder:
        def encode_all(self, pre_tokens: Iterable[str]) -> list[int]:
            keys = ((text, (text[:2], text[-1], len(text))) for text in pre_tokens)
            return [one for text, key in keys for one in cache.setdefault(key, encoder(text))]

    put("_piece_encoder", Encoder())(tokenizer)


def _at_most(count: int) -> Seed:
    return both(
        behind("stages", lambda one: replace(one, ids=one.ids[:count], offsets=one.offsets[:count])),
        behind("encode", lambda ids: ids[:count]),
    )


def _offsets(change: Callable[[Stages], list[Span]]) -> Seed:
    return behind("stages", lambda one: replace(one, offsets=change(one)))


def _measured(text: str, size: Callable[[str], int]) -> Callable[[Span], Span]:
    sizes = [size(text[:at]) for at in range(len(text) + 1)]
    return lambda span: (sizes[span[0]], sizes[span[1]])


def _utf16(one: Stages) -> list[Span]:
    return list(map(_measured(one.text, lambda part: len(part.encode("utf-16-le")) // 2), one.offsets))


def _bytes(one: Stages) -> list[Span]:
    return list(map(_measured(one.text, lambda part: len(part.encode())), one.offsets))


def _normalised(one: Stages) -> list[Span]:
    return list(map(_measured(one.text, lambda part: len(nfc(part))), one.offsets))


def _trimmed(one: Stages) -> list[Span]:
    def trim(span: Span) -> Span:
        begin, end = span
        inside = one.text[begin:end]
        return begin + len(inside) - len(inside.lstrip()), end

    return [trim(span) for span in one.offsets]


def _from_segment(one: Stages) -> list[Span]:
    begins = [
        segment.begin
        for segment in one.segments
        for _ in ([0] if segment.added_token is not None else [i for pre in segment.pre_tokens for i in pre.ids])
    ]
    return [(begin - start, end - start) for start, (begin, end) in zip(begins, one.offsets, strict=True)]


def _of_words(one: Stages) -> list[Span]:
    out: list[Span] = []
    rest = list(one.offsets)
    for segment in one.segments:
        for count in [1] if segment.added_token is not None else [len(pre.ids) for pre in segment.pre_tokens]:
            word, rest = rest[:count], rest[count:]
            out += [(word[0][0], word[-1][1])] * count
    return out


def _whole_characters(one: Stages) -> list[Span]:
    """Of the ids inside one character only the last has it."""
    behind_it = [*one.offsets[1:], (-1, -1)]
    return [
        (begin, begin) if (begin, end) == following else (begin, end)
        for (begin, end), following in zip(one.offsets, behind_it, strict=True)
    ]


def _no_special(one: Stages) -> list[Span]:
    added = {(segment.begin, segment.end) for segment in one.segments if segment.added_token is not None}
    return [(0, 0) if span in added else span for span in one.offsets]


def _wrong(name: str, says: str, seed: Seed, named: str, case: str = WORDS, wrong: str = "ids") -> Any:
    return entry(name, says, seed, wrong.split(), named, [case])


def _misplaced(name: str, says: str, change: Callable[[Stages], list[Span]], named: str, case: str = UNICODE) -> Any:
    return _wrong(f"own/tokenizer-offsets-{name}", says, _offsets(change), f"offsets.{named}", case, "offsets")


MUTANTS = (
    entry("TKS-04", "adds a token at the beginning, as other models do",
          _adds(lambda one: "<|endoftext|>", lambda one: ""), ["ids", "rendered_ids"], "ids.bos_added", [WORDS, CHAT]),
    entry("own/tokenizer-eos-added", "adds a token at the end, as embedding models do",
          _adds(lambda one: "", lambda one: str(one.files.eos_token)), ["ids", "rendered_ids"], "ids.eos_added",
          [WORDS, CHAT]),
    _wrong("own/tokenizer-ids-by-rank", "gives merge r the id 256 + r", _ids(_by_rank), "ids.by_rank"),
    _wrong("own/tokenizer-ids-of-bytes", "gives a byte its own value as id", _ids(_bytes_by_value),
           "ids.bytes_by_value"),
    _wrong("own/tokenizer-ids-sorted", "numbers the vocabulary anew, sorted", _ids(_by_order), "ids.renumbered"),
    _wrong("own/tokenizer-cache-key", "keys a cache by a pre-token's ends and length", _colliding, "ids.cache"),
    _wrong("own/tokenizer-ids-cut", "cuts every text at 512 ids", _at_most(512), "ids.truncated", MERGES),
    _misplaced("utf16", "counts offsets in UTF-16 units", _utf16, "utf16_units"),
    _misplaced("bytes", "counts offsets in bytes", _bytes, "bytes"),
    _misplaced("normalised", "counts offsets in the normalised text", _normalised, "of_normalized"),
    _misplaced("trimmed", "leaves leading spaces out of offsets", _trimmed, "trimmed", WORDS),
    _misplaced("inclusive", "ends offsets at the last character", lambda one: [(a, b - 1) for a, b in one.offsets],
               "inclusive", WORDS),
    _misplaced("of-segment", "counts offsets from the last added token", _from_segment, "of_segment", SPECIAL),
    _misplaced("of-words", "gives each id the offsets of its word", _of_words, "of_pre_tokens", WORDS),
    _misplaced("whole-characters", "only the last id of a character has it", _whole_characters, "partial_characters"),
    _misplaced("of-special", "gives added tokens no place", _no_special, "no_special", SPECIAL),
    _misplaced("late", "gives each id the offsets of the one before", lambda one: [(0, 0), *one.offsets][:-1],
               "shifted", WORDS),
)  # fmt: skip
