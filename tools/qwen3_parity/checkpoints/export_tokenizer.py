"""A tokenizer's directory as one message `Tokenizer`: what a port needs, without JSON, byte map or Unicode library."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from qwen3_encdec.tokenizer.byte_symbols import to_bytes
from qwen3_encdec.tokenizer.errors import TokenizerError
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer
from qwen3_encdec.tokenizer.unicode_tables import UnicodeTables, unicode_tables
from qwen3_golden import ParityError, pb
from qwen3_golden.errors import unwritable
from qwen3_golden.whole import write_whole
from qwen3_parity.text.ours import as_parity_error, read_tokenizer
from qwen3_reference.provenance import provenance

MAGIC = "qwen3.tokenizer"
SCHEMA_MAJOR = 1


def export_tokenizer(directory: Path, path: Path) -> pb.Tokenizer:
    """Write the tokenizer of a Hugging Face directory to `path`, and return it.

    Raises `ParityError` for a directory that cannot be read and for a disk that does not take the file; nothing is left
    behind then.
    """
    message = tokenizer_message(read_tokenizer(directory))
    try:
        write_whole(path, message.SerializeToString(deterministic=True))
    except OSError as error:
        raise unwritable(path, "tokenizer", error) from None
    return message


def tokenizer_message(tokenizer: ByteLevelTokenizer) -> pb.Tokenizer:
    """The message of a tokenizer; raises `ParityError` when two of its tokens stand for the same bytes."""
    files = tokenizer.files
    added = {token.id for token in files.added_tokens}
    pieces = {id: piece for id, piece in sorted(tokenizer.pieces.items()) if id not in added}
    vocabulary = files.vocabulary
    message = pb.Tokenizer(
        header=pb.Header(magic=MAGIC, schema_major=SCHEMA_MAJOR),
        provenance=provenance("qwen3_parity", more=("tokenizers",)),
        token=_tokens(pieces),
        merge=[
            pb.MergeRule(left=vocabulary[left], right=vocabulary[right], result=vocabulary[left + right])
            for left, right in files.merges
        ],
        added_token=[pb.AddedToken(**asdict(token)) for token in files.added_tokens],
        normalizer=files.normalizer,
        pre_tokenizer=re.escape(files.pattern) if files.pattern_is_literal else files.pattern,
        unicode=tables_message(unicode_tables()),
        chat_template=files.chat_template,
    )
    try:
        for name in ("pad", "eos", "bos", "unk"):
            token = getattr(files, f"{name}_token")
            if token is not None:
                setattr(message, f"{name}_id", tokenizer.id_of(token))
    except TokenizerError as error:
        raise as_parity_error(error) from error
    return message


def _tokens(pieces: Mapping[int, str]) -> Iterator[pb.TokenEntry]:
    owners: dict[bytes, int] = {}
    for id, piece in pieces.items():
        data = to_bytes(piece)
        if owners.setdefault(data, id) != id:
            raise ParityError(
                f"ids {owners[data]} and {id}",
                "two tokens stand for the same bytes, so that a port could not look them up",
                expected="other bytes for each token",
                got=f"{data!r} twice, once as {piece!r}",
                next_step="remove the entry that no merge makes from the vocabulary",
            )
        yield pb.TokenEntry(id=id, bytes=data)


def tables_message(tables: UnicodeTables) -> pb.UnicodeTables:
    """What letters, numbers, white space, words, ignored case and NFC are, as numbers."""
    return pb.UnicodeTables(
        letter=_spans(tables.letters),
        number=_spans(tables.numbers),
        space=_spans(tables.spaces),
        decomposition=[
            pb.Decomposition(code_point=ord(character), to=map(ord, parts))
            for character, parts in sorted(tables.decompositions.items())
        ],
        combining_class=_classes(tables.combining_classes),
        composition=[
            pb.Composition(first=ord(pair[0]), second=ord(pair[1]), to=ord(character))
            for pair, character in sorted(tables.compositions.items())
        ],
        word=_spans(tables.words),
        case_variant=[
            pb.CaseVariant(letter=ord(character), also=map(ord, others))
            for character, others in sorted(tables.case_variants.items())
        ],
    )


def _spans(ranges: Iterable[tuple[int, int]]) -> list[pb.Span]:
    return [pb.Span(begin=begin, end=end) for begin, end in ranges]


def _classes(classes: Mapping[str, int]) -> list[pb.CombiningClass]:
    """Neighbours of the same class as one range."""
    ranges: list[pb.CombiningClass] = []
    for code, value in sorted((ord(character), value) for character, value in classes.items()):
        if ranges and ranges[-1].range.end == code and ranges[-1].value == value:
            ranges[-1].range.end += 1
        else:
            ranges.append(pb.CombiningClass(range=pb.Span(begin=code, end=code + 1), value=value))
    return ranges
