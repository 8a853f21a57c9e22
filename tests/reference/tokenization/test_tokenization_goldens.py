"""The committed tokenization goldens: of their definitions, small, and every stage in agreement with the others."""

from __future__ import annotations

import hashlib
from functools import cache

import pytest

from qwen3_golden import GOLDEN_ROOT, STAGES, Recording, pb, read, verify
from qwen3_reference.tokenization.cases import TOKENIZATION_CASES

CASES = {definition.name.partition("/")[2]: definition for definition in TOKENIZATION_CASES}
APPLICABLE = """
TOK-01 TOK-02 TOK-04 TOK-05 TOK-06 TOK-08 TOK-09 TOK-10 TKM-01 TKM-02 TKM-04 TKM-05 TKM-06 TKM-08 TKM-09 TKM-10
TKB-01 TKB-02 TKB-04 TKB-05 TKB-06 TKB-08 TKB-09 TKB-10 TKB-12 TKB-13
TKS-01 TKS-02 TKS-04 TKS-06 TKS-08 TKS-09 TKS-10 TKS-12 TKS-13 TKS-14 TKS-16 TKS-17
"""


@cache
def golden(theme: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / "tokenization" / f"{theme}.pb", digests=True)


def every_encoding() -> list[pb.Encoding]:
    return [item for theme in CASES for item in golden(theme).tokenization.encoding]


@pytest.mark.parametrize("theme", CASES)
def test_a_tokenization_golden_is_of_its_definition(theme: str) -> None:
    definition, found = CASES[theme], golden(theme)
    verify(found)
    assert found.case.name == definition.name and tuple(found.case.exposes) == definition.exposes
    assert found.case.mode == pb.TOKENIZATION and found.case.tier == pb.TIER_TEXT
    assert found.run.arithmetic == pb.ARITHMETIC_NONE and found.run.backend == pb.BACKEND_NONE
    assert [stage for stage in STAGES if stage in found.run.materialised] == list(found.run.materialised)
    assert not found.tensors
    versions = [pair.key for pair in found.provenance.versions]
    assert versions == ["numpy", "python", "tokenizers", "torch", "transformers"]


@pytest.mark.parametrize("theme", CASES)
def test_a_golden_names_the_tokenizers_files(theme: str) -> None:
    (checkpoint,) = golden(theme).case.checkpoint
    files = sorted((GOLDEN_ROOT / "tokenizers" / checkpoint.name).iterdir())
    lines = sorted(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    assert checkpoint.role == "tokenizer"
    assert checkpoint.sha256 == hashlib.sha256("".join(lines).encode()).digest()


def test_the_goldens_are_small_and_the_texts_many() -> None:
    sizes = {path.stem: path.stat().st_size for path in (GOLDEN_ROOT / "cases" / "tokenization").glob("*.pb")}
    assert sizes.keys() == CASES.keys()
    assert max(sizes.values()) < 300_000 and sum(sizes.values()) < 1_200_000
    assert 150 <= len(every_encoding()) <= 350
    page = (GOLDEN_ROOT.parent / "docs" / "what-it-catches.md").read_text(encoding="utf-8")
    assert f"{len(every_encoding())} committed texts" in page


def test_names_are_unique_in_a_case() -> None:
    for theme in CASES:
        found = golden(theme).tokenization
        for items in (found.encoding, found.decoding, found.batch, found.conversation):
            names = [item.name for item in items]
            assert len(names) == len(set(names)), theme


def test_every_applicable_bug_class_is_exposed_and_no_other_is_claimed() -> None:
    assert {bug for case in TOKENIZATION_CASES for bug in case.exposes} == set(APPLICABLE.split())


def test_segments_and_pre_tokens_have_no_gaps() -> None:
    for item in every_encoding():
        ends = [0, *(segment.end for segment in item.segment)]
        assert [segment.begin for segment in item.segment] == ends[:-1] and ends[-1] == len(item.text), item.name
        for segment in item.segment:
            tokens = segment.pre_token
            assert segment.begin < segment.end
            assert segment.HasField("added_token") != bool(tokens), item.name
            assert [token.begin for token in tokens] == [0, *(token.end for token in tokens)][: len(tokens)]
            assert [token.begin_byte for token in tokens] == [0, *(token.end_byte for token in tokens)][: len(tokens)]
            if tokens:
                assert tokens[-1].end == len(segment.normalized)
                assert tokens[-1].end_byte == len(segment.normalized.encode())


def test_every_merge_makes_one_piece_of_two() -> None:
    for item in every_encoding():
        for segment in item.segment:
            for token in segment.pre_token:
                assert len(token.symbols) == token.end_byte - token.begin_byte
                assert len(token.merge) == len(token.symbols) - len(token.id), item.name
                assert list(token.merge) == sorted(token.merge)


def test_ids_are_those_of_the_parts_and_each_has_an_offset() -> None:
    for item in every_encoding():
        parts = [
            number
            for segment in item.segment
            for number in (
                [segment.added_token]
                if segment.HasField("added_token")
                else [number for token in segment.pre_token for number in token.id]
            )
        ]
        assert parts == list(item.id) and len(item.offset) == len(item.id), item.name
        assert all(span.begin < span.end <= len(item.text) for span in item.offset), item.name
