"""The stages of a decoding: the bytes of each id, the text, and the text as a stream gives it out."""

from __future__ import annotations

from functools import cache

from tokenizers.decoders import DecodeStream
from transformers.convert_slow_tokenizer import bytes_to_unicode

from qwen3_golden import ParityError, pb
from qwen3_reference.tokenization.loading import ReferenceTokenizer


@cache
def _byte_of() -> dict[str, int]:
    table: dict[int, str] = bytes_to_unicode()  # type: ignore[no-untyped-call]
    return {character: byte for byte, character in table.items()}


def piece_bytes(piece: str) -> bytes:
    """What a piece of the vocabulary stands for: a byte for each character, its own UTF-8 when one stands for none."""
    known = _byte_of()
    if all(character in known for character in piece):
        return bytes(known[character] for character in piece)
    return piece.encode()


def decoding(reference: ReferenceTokenizer, request: pb.Decoding) -> pb.Decoding:
    """`request` (name, ids, skip_special_tokens) with every stage filled in.

    Chunks are those of Hugging Face's own stream, and last what it still holds back, so that they join to the text. It
    holds back whatever ends in U+FFFD, also a real one: chunks are judged by their join, and by whole characters.
    Raises `ParityError`, as a harness bug, when pieces or chunks do not join to Hugging Face's text.
    """
    ids = list(request.id)
    result = pb.Decoding(name=request.name, id=ids, skip_special_tokens=request.skip_special_tokens)
    result.piece.extend(piece_bytes(piece) for piece in reference.tokenizer.convert_ids_to_tokens(ids))
    text = reference.tokenizer.decode(
        ids, skip_special_tokens=request.skip_special_tokens, clean_up_tokenization_spaces=False
    )
    assert isinstance(text, str)
    result.text = text
    skipped = reference.special if request.skip_special_tokens else frozenset()
    pieces = [piece for number, piece in zip(ids, result.piece, strict=True) if number not in skipped]
    _check(request, "pieces do not join to", b"".join(pieces).decode(errors="replace"), result.text)
    stream = DecodeStream(skip_special_tokens=request.skip_special_tokens)
    result.chunk.extend(stream.step(reference.backend, number) or "" for number in ids)
    emitted = "".join(result.chunk)
    _check(request, "chunks are not the beginning of", emitted, result.text[: len(emitted)])
    result.chunk.append(result.text[len(emitted) :])
    return result


def _check(request: pb.Decoding, clause: str, got: str, text: str) -> None:
    if got != text:
        raise ParityError(
            f"{request.name}: {list(request.id)}",
            f"the {clause} the text that Hugging Face decodes",
            expected=ascii(text),
            got=ascii(got),
            next_step="report it with the ids and the tokenizer's directory",
            fault="harness bug",
        )
