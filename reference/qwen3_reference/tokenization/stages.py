"""The stages of an encoding, each from a part of Hugging Face's tokenizer, and checked against what the whole makes."""

from __future__ import annotations

from itertools import accumulate

from qwen3_golden import ParityError, pb
from qwen3_reference.tokenization.loading import ReferenceTokenizer


def encoding(reference: ReferenceTokenizer, request: pb.Encoding) -> pb.Encoding:
    """`request` (name, text, split_special_tokens) with every stage filled in.

    Raises `ParityError`, as a harness bug, when the parts of Hugging Face's tokenizer disagree with the whole.
    """
    result = pb.Encoding(name=request.name, text=request.text, split_special_tokens=request.split_special_tokens)
    whole = reference.tokenizer(
        request.text,
        add_special_tokens=False,
        split_special_tokens=request.split_special_tokens,
        return_offsets_mapping=True,
    )
    result.id.extend(whole["input_ids"])
    result.offset.extend(pb.Span(begin=begin, end=end) for begin, end in whole["offset_mapping"])
    result.segment.extend(_segments(reference, result))
    parts = [number for segment in result.segment for number in _ids(segment)]
    if parts != list(result.id):
        raise ParityError(
            f"{request.name}: {request.text!a}",
            "the ids of the parts are not those of the whole text",
            expected=list(result.id),
            got=parts,
            next_step="report it with the text and the tokenizer's directory",
            fault="harness bug",
        )
    return result


def _ids(segment: pb.Segment) -> list[int]:
    if segment.HasField("added_token"):
        return [segment.added_token]
    return [number for pre_token in segment.pre_token for number in pre_token.id]


def _segments(reference: ReferenceTokenizer, encoded: pb.Encoding) -> list[pb.Segment]:
    """Added tokens where the whole has their ids, with the white space that they take along; plain text between."""
    segments, done = [], 0
    for number, span in zip(encoded.id, encoded.offset, strict=True):
        if number in reference.added:
            if span.begin > done:
                segments.append(_plain(reference, encoded.text, done, span.begin))
            segments.append(pb.Segment(begin=span.begin, end=span.end, added_token=number))
            done = span.end
    if len(encoded.text) > done:
        segments.append(_plain(reference, encoded.text, done, len(encoded.text)))
    return segments


def _plain(reference: ReferenceTokenizer, text: str, begin: int, end: int) -> pb.Segment:
    backend = reference.backend
    normalized = text[begin:end]
    if backend.normalizer is not None:
        normalized = backend.normalizer.normalize_str(normalized)
    starts = list(accumulate((len(character.encode()) for character in normalized), initial=0))
    segment = pb.Segment(begin=begin, end=end, normalized=normalized)
    for symbols, (first, last) in backend.pre_tokenizer.pre_tokenize_str(normalized):
        tokens = backend.model.tokenize(symbols)
        segment.pre_token.append(
            pb.PreToken(
                begin=first,
                end=last,
                begin_byte=starts[first],
                end_byte=starts[last],
                symbols=symbols,
                merge=reference.merges.applied(token.value for token in tokens),
                id=[token.id for token in tokens],
            )
        )
    return segment
