"""Bugs from text to ids, but for merging: other Unicode, other orders, arguments that are not passed on, a cache."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from detection.mutants.text.seeds import Seed, around, behind, swap, wrong
from qwen3_encdec.tokenizer.stages import Stages
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer
from qwen3_encdec.tokenizer.unicode_tables import Ranges, unicode_tables

QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n{L}{N}]?[{L}]+|[{N}]| ?[^{S}{L}{N}]+[\r\n]*|[{S}]*[\r\n]+"
    r"|[{S}]+(?![^{S}])|[{S}]+"
)
"""Qwen's pattern; {L}, {N} and {S} are what stands inside the brackets of letters, numbers and spaces."""
COMPOSED_16 = {
    "\U000105d2\u0307": "\U000105c9",
    "\U000105da\u0307": "\U000105e4",
    "\U00011382\U000113c9": "\U00011383",
    "\U00016d67\U00016d67": "\U00016d68",
}
"""Compositions that Unicode 16 brought."""
LETTERS_16 = ((0x1C89, 0x1C8B), (0x105C0, 0x105F4), (0x10D4A, 0x10D66), (0x16D40, 0x16D6D))
LETTERS_17 = ((0x88F, 0x890), (0xA7CE, 0xA7D0), (0x11DB0, 0x11DDC), (0x16EA0, 0x16EB9), (0x16EBB, 0x16ED4))
"""Letters that these versions brought: Hugging Face knows those of 16."""


def _newer(text: str) -> str:
    for old, new in COMPOSED_16.items():
        text = text.replace(old, new)
    return text


def _inside(ranges: Ranges) -> str:
    return "".join(f"\\U{begin:08x}-\\U{end - 1:08x}" for begin, end in ranges)


def _without(ranges: Ranges, *gone: tuple[int, int]) -> Ranges:
    for first, last in gone:
        cut = (part for begin, end in ranges for part in ((begin, min(end, first)), (max(begin, last), end)))
        ranges = tuple((begin, end) for begin, end in cut if begin < end)
    return ranges


def _letters(change: Callable[[Ranges], Ranges]) -> Seed:
    """Pre-tokens by Qwen's pattern with other letters."""

    def make(tokenizer: ByteLevelTokenizer) -> Callable[[str], list[str]]:
        tables, pattern = unicode_tables(), QWEN
        for name, ranges in {"L": change(tables.letters), "N": tables.numbers, "S": tables.spaces}.items():
            pattern = pattern.replace(f"{{{name}}}", _inside(ranges))
        compiled = re.compile(f"({pattern})")
        return lambda text: [piece for piece in compiled.split(text) if piece]

    return swap("pre_tokenize", make)


def _adds(before: Callable[[ByteLevelTokenizer], list[int]], after: Callable[[ByteLevelTokenizer], list[int]]) -> Seed:
    """Tokens at both ends of whatever is encoded."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        first, last, none = before(tokenizer), after(tokenizer), [(0, 0)]

        def stages(plain: Stages) -> Stages:
            offsets = none * len(first) + plain.offsets + none * len(last)
            return replace(plain, ids=first + plain.ids + last, offsets=offsets)

        behind("stages", stages)(tokenizer)
        behind("encode", lambda ids: first + ids + last)(tokenizer)

    return seed


def _by_rank(tokenizer: ByteLevelTokenizer) -> None:
    """Another vocabulary to encode with; decoding keeps its own."""
    merged = {left + right: 256 + rank for rank, (left, right) in enumerate(tokenizer.files.merges)}
    tokenizer.vocabulary = tokenizer.vocabulary | merged
    around("encode", lambda _, text, **asked: tokenizer.stages(text, **asked).ids)(tokenizer)


def _colliding(tokenizer: ByteLevelTokenizer) -> None:
    """A cache whose keys are shared by different pre-tokens."""
    cache: dict[tuple[str, str, int], tuple[int, ...]] = {}
    encoder = tokenizer._piece_encoder

    class Encoder:
        def encode_all(self, pre_tokens: Iterable[str]) -> list[int]:
            keys = ((text, (text[:2], text[-1], len(text))) for text in pre_tokens)
            return [token_id for text, key in keys for token_id in cache.setdefault(key, encoder(text))]

    swap("_piece_encoder", lambda _: Encoder())(tokenizer)


def _utf16(stages: Stages) -> Stages:
    def size(end: int) -> int:
        return len(stages.text[:end].encode("utf-16-le")) // 2

    return replace(stages, offsets=[(size(begin), size(end)) for begin, end in stages.offsets])


MUTANTS = (
    wrong("TKS-02", "special tokens are found in a user's words",
          around("split", lambda plain, text, _: plain(text, False)), "segments", "segments.special_in_user_text",
          "special_tokens"),
    wrong("own/tokenizer-split-normalised", "cuts the normalised text, and counts in it",
          swap("split", lambda tokenizer: (
              lambda text, split, plain=tokenizer.split: plain(tokenizer.normalize(text), split))), "segments",
          "segments.of_normalized", "special_tokens"),
    wrong("TKS-13", "does not normalise", swap("normalize", lambda _: str), "normalized", "normalized.missing",
          "unicode"),
    wrong("own/tokenizer-nfc-newer", "NFC of Unicode 16", behind("normalize", _newer), "normalized",
          "normalized.other_unicode", "unicode"),
    wrong("own/tokenizer-letters-newer", "letters of Unicode 17", _letters(lambda letters: letters + LETTERS_17),
          "pre_tokens", "pre_tokens.other_unicode", "unicode"),
    wrong("own/tokenizer-letters-older", "letters of Unicode 15", _letters(lambda all_: _without(all_, *LETTERS_16)),
          "pre_tokens", "pre_tokens.other_unicode pre_tokens.letters_missing", "unicode"),
    wrong("own/tokenizer-letters-range", "one range of letters is missing: Thai",
          _letters(lambda letters: tuple(bounds for bounds in letters if not bounds[0] <= 0x0E01 < bounds[1])),
          "pre_tokens",
          "pre_tokens.letters_missing", "unicode"),
    wrong("own/tokenizer-letters-one", "one letter is missing: ª", _letters(lambda all_: _without(all_, (0xAA, 0xAB))),
          "pre_tokens", "pre_tokens.letters_missing", "unicode"),
    wrong("own/tokenizer-piece-255-bytes", "a pre-token holds 255 bytes at most",
          behind("to_symbols", lambda symbols: symbols[:255]), "symbols", "symbols.truncated", "merges"),
    wrong("TKS-04", "adds a token at the beginning, as other models do",
          _adds(lambda tokenizer: [tokenizer.id_of("<|endoftext|>")], lambda _: []), "ids rendered_ids",
          "ids.bos_added",
          "words chat"),
    wrong("own/tokenizer-eos-added", "adds a token at the end, as embedding models do",
          _adds(lambda _: [], lambda tokenizer: [tokenizer.id_of(str(tokenizer.files.eos_token))]), "ids rendered_ids",
          "ids.eos_added",
          "words chat"),
    wrong("own/tokenizer-ids-by-rank", "gives merge r the id 256 + r", _by_rank, "ids", "ids.by_rank", "words"),
    wrong("own/tokenizer-cache-key", "keys a cache by a pre-token's ends and length", _colliding, "ids", "ids.cache",
          "words"),
    wrong("own/tokenizer-offsets-utf16", "counts offsets in UTF-16 units", behind("stages", _utf16), "offsets",
          "offsets.utf16_units", "unicode"),
)  # fmt: skip
