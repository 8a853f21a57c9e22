"""A tokenizer as one message: everything that is needed to build it again, and nothing half written."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qwen3_encdec.tokenizer.added_tokens import AddedToken
from qwen3_encdec.tokenizer.byte_symbols import SYMBOLS
from qwen3_encdec.tokenizer.files import TokenizerFiles
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer
from qwen3_encdec.tokenizer.unicode_tables import unicode_tables
from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_parity.checkpoints.export_tokenizer import export_tokenizer, tables_message, tokenizer_message
from qwen3_parity.cli import main
from qwen3_parity.recording.suite import tokenization_goldens
from qwen3_parity.text.ours import read_tokenizer

TINY = GOLDEN_ROOT / "tokenizers" / "tiny"
TEXTS = [text.text for path in tokenization_goldens() for text in read(path).tokenization.encoding]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def rebuilt(message: pb.Tokenizer) -> ByteLevelTokenizer:
    """A tokenizer of the message alone: no file is read, and its symbols are made from bytes."""
    pieces = {token.id: "".join(SYMBOLS[byte] for byte in bytes(token.bytes)) for token in message.token}
    added = {token.id: token.content for token in message.added_token}

    def name(field: str) -> str | None:
        number = getattr(message, f"{field}_id")
        return (added | pieces)[number] if message.HasField(f"{field}_id") else None  # type: ignore[arg-type]

    return ByteLevelTokenizer(
        TokenizerFiles(
            vocabulary={piece: number for number, piece in pieces.items()},
            merges=[(pieces[merge.left], pieces[merge.right]) for merge in message.merge],
            added_tokens=tuple(
                AddedToken(one.id, one.content, one.special, one.lstrip, one.rstrip, one.single_word, one.normalized)
                for one in message.added_token
            ),
            pattern=message.pre_tokenizer,
            pattern_is_literal=False,
            normalizer=message.normalizer,
            pad_token=name("pad"),
            eos_token=name("eos"),
            bos_token=name("bos"),
            unk_token=name("unk"),
            chat_template=message.chat_template or None,
            padding_side="right",
            truncation_side="right",
        )
    )


def same(one: ByteLevelTokenizer, two: ByteLevelTokenizer, texts: list[str]) -> None:
    for text in texts:
        for split in (False, True):
            ids = one.encode(text, split_special_tokens=split)
            assert two.encode(text, split_special_tokens=split) == ids, ascii(text)
            assert two.decode(ids) == one.decode(ids)


@pytest.mark.parametrize("name", ["tiny", "tiny-sentinels"])
def test_a_tokenizer_built_from_the_message_alone_encodes_and_decodes_the_same(name: str, tmp_path: Path) -> None:
    directory = GOLDEN_ROOT / "tokenizers" / name
    export_tokenizer(directory, tmp_path / "t.pb")
    message = pb.Tokenizer.FromString((tmp_path / "t.pb").read_bytes())
    original, again = read_tokenizer(directory), rebuilt(message)
    same(original, again, TEXTS)
    assert {id: again.token_bytes(id) for id in original.pieces} == {
        id: original.token_bytes(id) for id in original.pieces
    }
    named = [(f.pad_token, f.eos_token, f.bos_token, f.unk_token) for f in (original.files, again.files)]
    assert named[0] == named[1]
    talk = [{"role": "user", "content": "Hello"}]
    assert again.render(talk, add_generation_prompt=True) == original.render(talk, add_generation_prompt=True)
    texts = ["one", "one and two"]
    assert again.batch(texts) == original.batch(texts)


@pytest.mark.slow
def test_the_real_tokenizer_too(data: Path) -> None:
    original = read_tokenizer(data / "qwen3-tokenizer")
    message = tokenizer_message(original)
    assert (len(message.token), len(message.merge), len(message.added_token)) == (151_643, 151_387, 26)
    same(original, rebuilt(message), TEXTS)


def test_merges_alone_make_the_ids_of_a_text_without_any_lookup_of_pieces() -> None:
    message = tokenizer_message(read_tokenizer(TINY))
    of_byte = {bytes(token.bytes): token.id for token in message.token if len(bytes(token.bytes)) == 1}
    ranks = {(one.left, one.right): (rank, one.result) for rank, one in enumerate(message.merge)}
    ours = read_tokenizer(TINY)
    for word in ("Hello", "brutalist", "ababab", "\u00e9t\u00e9", "\u4f60\u597d"):
        ids = [of_byte[bytes([byte])] for byte in word.encode()]
        while pairs := [(ranks[pair], at) for at, pair in enumerate(pairwise(ids)) if pair in ranks]:
            (_, result), at = min(pairs)
            ids[at : at + 2] = [result]
        assert ids == ours.encode(word), word


def in_spans(spans: list[pb.Span], code: int) -> bool:
    return any(span.begin <= code < span.end for span in spans)


def test_the_unicode_tables_stand_in_the_message_as_they_are() -> None:
    tables = unicode_tables()
    message = tables_message(tables)
    for spans, ranges in ((message.letter, tables.letters), (message.number, tables.numbers)):
        assert [(span.begin, span.end) for span in spans] == list(ranges)
    assert [(span.begin, span.end) for span in message.space] == list(tables.spaces)
    classes = {chr(c): one.value for one in message.combining_class for c in range(one.range.begin, one.range.end)}
    assert classes == dict(tables.combining_classes)
    made = {chr(one.code_point): "".join(map(chr, one.to)) for one in message.decomposition}
    assert made == dict(tables.decompositions)
    assert {chr(one.first) + chr(one.second): chr(one.to) for one in message.composition} == dict(tables.compositions)
    variants = {chr(one.letter): "".join(map(chr, one.also)) for one in message.case_variant}
    assert variants == dict(tables.case_variants) and "\u017f" in variants["s"]


def test_ranges_of_combining_classes_never_join_others_or_leap_over_a_gap() -> None:
    tables = replace(unicode_tables(), combining_classes=dict.fromkeys("\u0300\u0301\u0303", 230) | {"\u0304": 220})
    found = [(one.range.begin, one.range.end, one.value) for one in tables_message(tables).combining_class]
    assert found == [(0x300, 0x302, 230), (0x303, 0x304, 230), (0x304, 0x305, 220)]


def test_a_literal_pattern_becomes_a_regex_of_the_same_matches() -> None:
    files = replace(read_tokenizer(TINY).files, pattern=". +*|(a) #-é", pattern_is_literal=True)
    message = tokenizer_message(ByteLevelTokenizer(files))
    text = "x. +*|(a) #-éy. +*|(a) #-éz +"
    assert re.findall(message.pre_tokenizer, text) == [files.pattern] * 2
    same(ByteLevelTokenizer(files), rebuilt(message), [text, *TEXTS])


def test_two_tokens_of_the_same_bytes_are_refused() -> None:
    files = read_tokenizer(TINY).files
    twice = {**files.vocabulary, "\u4f60": max(files.vocabulary.values()) + 1000}
    twice["".join(SYMBOLS[byte] for byte in "\u4f60".encode())] = max(twice.values()) + 1
    with pytest.raises(ParityError, match="the same bytes"):
        tokenizer_message(ByteLevelTokenizer(replace(files, vocabulary=twice)))


def test_a_named_token_that_does_not_exist_is_refused() -> None:
    files = replace(read_tokenizer(TINY).files, unk_token="<nowhere>")
    with pytest.raises(ParityError, match="<nowhere>"):
        tokenizer_message(ByteLevelTokenizer(files))


def test_random_texts_are_the_same_after_the_round_trip() -> None:
    original = read_tokenizer(TINY)
    again = rebuilt(tokenizer_message(original))
    for seed in range(300):
        draw = random.Random(seed)
        ranges = ((0, 0x80), (0, 0x800), (0x1100, 0x11FF), (0xAC00, 0xD7A4), (0x300, 0x370), (0xE000, 0x30000))
        text = "".join(chr(draw.randrange(*draw.choice(ranges))) for _ in range(draw.randrange(1, 30)))
        assert again.encode(text) == original.encode(text), f"seed {seed}: {text!a}"


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    result = run("weights", "export", "--tokenizer", TINY, "--out", tmp_path / "new" / "t.pb")
    assert result.exit_code == 0 and "merges" in result.output
    message = pb.Tokenizer.FromString((tmp_path / "new" / "t.pb").read_bytes())
    assert (message.header.magic, message.header.schema_major) == ("qwen3.tokenizer", 1)
    assert [token.id for token in message.token] == sorted(token.id for token in message.token)
    assert not {token.id for token in message.token} & {token.id for token in message.added_token}


def test_exporting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("1", "2"):
        export_tokenizer(TINY, tmp_path / name)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.parametrize("content", ["", "{", '{"model": 1}'])
def test_a_bad_directory_exits_with_2_and_leaves_nothing(content: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "tokenizer.json").write_text(content)
    result = run("weights", "export", "--tokenizer", tmp_path / "in", "--out", tmp_path / "out" / "t.pb")
    assert result.exit_code == 2 and "expected:" in result.output and "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_an_empty_directory_exits_with_2(tmp_path: Path) -> None:
    assert run("weights", "export", "--tokenizer", tmp_path, "--out", tmp_path / "t.pb").exit_code == 2


def test_a_place_that_cannot_be_written_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("weights", "export", "--tokenizer", TINY, "--out", tmp_path / "file" / "t.pb")
    assert result.exit_code == 2 and "cannot be written" in result.output
    (tmp_path / "t.pb").mkdir()
    assert run("weights", "export", "--tokenizer", TINY, "--out", tmp_path / "t.pb").exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "t.pb"]


@pytest.mark.parametrize("name", ["tiny", "tiny-added", "tiny-overlaps", "tiny-sentinels"])
def test_the_committed_message_of_a_tokenizer_is_what_its_directory_exports(name: str) -> None:
    committed = pb.Tokenizer.FromString((TINY.parent / f"{name}.pb").read_bytes())
    exported = tokenizer_message(read_tokenizer(TINY.parent / name))
    exported.provenance.CopyFrom(committed.provenance)
    assert committed == exported
