"""Ids for the decodings, drawn from a tokenizer's own vocabulary: all, at random, broken characters, special tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from qwen3_golden import pb
from qwen3_reference.tokenization.decoding import piece_bytes
from qwen3_reference.tokenization.loading import ReferenceTokenizer

_AT_ONCE = 256
_MANY = 6000
"""Ids that are decoded all, of a larger vocabulary evenly spread ones."""

_MALFORMED = {
    "lone_continuation": "80",
    "two_continuations": "a5 97",
    "cut_two": "c3",
    "cut_three": "e6 97",
    "cut_four": "f0 9f 98",
    "overlong": "c0 af e0 80 80",
    "surrogate": "ed a0 80 ed bf bf",
    "beyond_unicode": "f4 90 80 80 f5 ff",
    "cut_then_space": "e6 97 20 61",
    "cut_then_cut": "f0 9f f0 9f 98 80",
    "replacement_character": "61 ef bf bd ef bf bd",
    "replacement_then_cut": "ef bf bd ef bf",
    "byte_order_mark": "ef bb bf 61",
    "controls": "00 0a 0d 1b 7f c2 80 c2 a0 c2 ad",
}
_CUT = "é😀漢👩‍👩‍👧ďϕ𝒳\u0301한"
_CLEAN_UP = "do n't , it 's . Yes ! we 'll ? I 'm  they 're 've"
_BYTE_LIKE = "a<0x0A>b <0xC3>"


def decodings(reference: ReferenceTokenizer, seed: int) -> list[pb.Decoding]:
    """The fields marked "given" of the decodings: every id (of a large vocabulary some 6,000), and hand-made ones."""
    drawn = [
        pb.Decoding(name=name, id=ids, skip_special_tokens=skip)
        for name, ids, skip in (
            *_every_id(reference),
            *_special_tokens(reference),
            *_characters(reference),
            *_random(reference, Random(seed)),
        )
    ]
    return [*drawn, pb.Decoding(name="nothing")]


def added_decodings(reference: ReferenceTokenizer) -> list[pb.Decoding]:
    """As `decodings`, of the added tokens alone: between words, and those that are not ASCII in front of more bytes."""
    single, drawn = _single_bytes(reference), [*_special_tokens(reference)]
    contents = reference.backend.get_added_tokens_decoder()
    for number in sorted(number for number, token in contents.items() if not token.content.isascii()):
        drawn.append((f"added/{number}", [number], False))
        drawn.append((f"added/{number}_then_bytes", [number, single[0x80], single[0x80], *_ids(reference, "x")], False))
    return [pb.Decoding(name=name, id=ids, skip_special_tokens=skip) for name, ids, skip in drawn]


Given = tuple[str, Sequence[int], bool]


def _ids(reference: ReferenceTokenizer, text: str) -> list[int]:
    ids = reference.tokenizer(text, add_special_tokens=False, split_special_tokens=False)["input_ids"]
    return [int(number) for number in ids]


def _vocabulary(reference: ReferenceTokenizer) -> list[int]:
    ids = sorted(reference.tokenizer.get_vocab().values())
    return ids[:: -(-len(ids) // _MANY)]


def _every_id(reference: ReferenceTokenizer) -> Iterator[Given]:
    ids = _vocabulary(reference)
    for start in range(0, len(ids), _AT_ONCE):
        yield f"ids/from_{ids[start]}", ids[start : start + _AT_ONCE], False


def _special_tokens(reference: ReferenceTokenizer) -> Iterator[Given]:
    added, word = sorted(reference.added), _ids(reference, " word")
    between = [number for token in added for number in (token, *word)]
    begin, end = _single_bytes(reference)[0xE6], [_single_bytes(reference)[byte] for byte in (0x97, 0xA5)]
    for skip in (False, True):
        how = "skipped" if skip else "kept"
        yield f"added/{how}", added, skip
        yield f"added/between_words_{how}", between, skip
        yield f"added/in_a_character_{how}", [begin, min(reference.special), *end], skip
        yield f"added/alone_{how}", [min(reference.special)], skip


def _single_bytes(reference: ReferenceTokenizer) -> dict[int, int]:
    """The id of each byte, by byte: Hugging Face gives the vocabulary in another order every time."""
    pieces = {piece_bytes(piece): number for piece, number in reference.tokenizer.get_vocab().items()}
    return {byte: pieces[bytes([byte])] for byte in range(256)}


def _characters(reference: ReferenceTokenizer) -> Iterator[Given]:
    of_byte = _single_bytes(reference)
    for name, hexadecimal in _MALFORMED.items():
        yield f"bytes/{name}", [of_byte[byte] for byte in bytes.fromhex(hexadecimal)], False
    for byte in range(0x80, 0x100):
        yield f"bytes/alone_{byte:02x}", [of_byte[byte]], False
    spelt = [of_byte[byte] for byte in _CUT.encode()]
    for cut in range(1, len(spelt)):
        yield f"cut/bytes_to_{cut}", spelt[:cut], False
    pieces = _ids(reference, _CUT)
    for cut in range(1, len(pieces)):
        yield f"cut/pieces_from_{cut}", pieces[cut:], False
    yield "text/clean_up", _ids(reference, _CLEAN_UP), False
    yield "text/byte_like", _ids(reference, _BYTE_LIKE), False
    yield "text/leading_space", _ids(reference, " word"), False


def _random(reference: ReferenceTokenizer, draw: Random) -> Iterator[Given]:
    ids, added = sorted(reference.tokenizer.get_vocab().values()), sorted(reference.added)
    broken = [number for byte, number in _single_bytes(reference).items() if byte >= 0x80]
    for number in range(40):
        chosen = [draw.choice(draw.choice((ids, ids, broken, added))) for _ in range(draw.randrange(1, 24))]
        yield f"random/{number}", chosen, number % 2 == 1
