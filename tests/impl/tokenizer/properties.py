"""What holds for every text, each as pairs of ours and Hugging Face's, text by text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from tokenizers import Encoding, Tokenizer

from qwen3_encdec.tokenizer.stages import Segment
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer


@dataclass(frozen=True)
class Both:
    """Some texts, both tokenizers, and what Hugging Face's makes of the texts."""

    texts: list[str]
    ours: ByteLevelTokenizer
    theirs: Tokenizer
    encodings: list[Encoding]
    random: Random


Pairs = Iterator[tuple[object, object]]
"""For each text what we have and what is right."""


def ids(both: Both) -> Pairs:
    """The ids of the fast road."""
    for text, encoding in zip(both.texts, both.encodings, strict=True):
        yield both.ours.encode(text), encoding.ids


def ids_of_plain_text(both: Both) -> Pairs:
    """The ids where names of special tokens are plain text."""
    both.theirs.encode_special_tokens = True
    try:
        encodings = both.theirs.encode_batch(both.texts, add_special_tokens=False)
    finally:
        both.theirs.encode_special_tokens = False
    for text, encoding in zip(both.texts, encodings, strict=True):
        yield both.ours.encode(text, split_special_tokens=True), encoding.ids


def offsets(both: Both) -> Pairs:
    """Ids and offsets of the road that shows every stage."""
    for text, encoding in zip(both.texts, both.encodings, strict=True):
        stages = both.ours.stages(text)
        yield (stages.ids, stages.offsets), (encoding.ids, encoding.offsets)


def stages(both: Both) -> Pairs:
    """Each stage by Hugging Face's part for it, and all of them joined: the ids of the fast road, the whole text."""
    normalizer, pre_tokenizer = both.theirs.normalizer, both.theirs.pre_tokenizer
    for text in both.texts:
        got, right = [], []
        shown = both.ours.stages(text)
        for segment in shown.segments:
            if segment.added_token is None:
                normalized = normalizer.normalize_str(text[segment.begin : segment.end])
                got += [segment.normalized, [(one.symbols, (one.begin, one.end)) for one in segment.pre_tokens]]
                right += [normalized, pre_tokenizer.pre_tokenize_str(normalized)]
        parts = [id for segment in shown.segments for id in _ids(segment)]
        whole = "".join(text[segment.begin : segment.end] for segment in shown.segments)
        yield [*got, parts, whole], [*right, both.ours.encode(text), text]


def decoded(both: Both) -> Pairs:
    """The text of a text's ids, and of the same ids among random ones; with special tokens and without."""
    known = sorted(both.ours.pieces)
    mixed = [_mixed(both.random, encoding.ids, known) for encoding in both.encodings]
    right = [
        both.theirs.decode_batch(sequences, skip_special_tokens=skip)
        for sequences in ([encoding.ids for encoding in both.encodings], mixed)
        for skip in (False, True)
    ]
    for encoding, other, expected in zip(both.encodings, mixed, zip(*right, strict=True), strict=True):
        got = [
            both.ours.decode(sequence, skip_special_tokens=skip)
            for sequence in (encoding.ids, other)
            for skip in (False, True)
        ]
        yield (other, *got), (other, *expected)


def streamed(both: Both) -> Pairs:
    """A stream of ids among random ones, and one that ends at a random place: their text is that of all its ids."""
    return _streamed(both, lambda length: [both.random.randint(0, length)])


def streamed_at_every_split(both: Both) -> Pairs:
    """The same, ending at every place."""
    return _streamed(both, lambda length: range(length + 1))


def _streamed(both: Both, places: Callable[[int], list[int] | range]) -> Pairs:
    known = sorted(both.ours.pieces)
    mixed = [_mixed(both.random, encoding.ids, known) for encoding in both.encodings]
    skips = [both.random.random() < 0.5 for _ in mixed]
    for sequence, skip in zip(mixed, skips, strict=True):
        cuts = [*places(len(sequence)), len(sequence)]
        right = both.theirs.decode_batch([sequence[:cut] for cut in cuts], skip_special_tokens=skip)
        got = []
        for cut in cuts:
            stream = both.ours.stream(skip_special_tokens=skip)
            chunks = [stream.push(id) for id in sequence[:cut]]
            # What is out before the end is certain: whatever follows, the whole text begins with it.
            certain = right[-1].startswith("".join(chunks))
            got.append(("".join(chunks) + stream.finish(), certain))
        yield (sequence, got), (sequence, [(text, True) for text in right])


def _ids(segment: Segment) -> list[int]:
    if segment.added_token is not None:
        return [segment.added_token]
    return [id for pre_token in segment.pre_tokens for id in pre_token.ids]


def _mixed(random: Random, sequence: list[int], known: list[int]) -> list[int]:
    """The ids with others put between them: characters are cut off."""
    others = random.choices(known, k=random.randint(0, 2))
    result = list(sequence)
    for id in others:
        result.insert(random.randint(0, len(result)), id)
    return result
