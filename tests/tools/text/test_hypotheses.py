"""Every stage's named mistakes: made here by other code, each is found by its name."""

from __future__ import annotations

import json
import re
import unicodedata
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate

import pytest

from qwen3_golden import GOLDEN_ROOT, STAGES, Recording, pb, read
from qwen3_parity.diagnosis.text import diagnose_tokenization, directory_of
from qwen3_parity.text.bpe import best_first
from qwen3_parity.text.table import TABLE

Change = Callable[[pb.Tokenization], None]

_FILE = GOLDEN_ROOT / "tokenizers" / "tiny" / "tokenizer.json"
FIRST_ADDED = min(token["id"] for token in json.loads(_FILE.read_text(encoding="utf-8"))["added_tokens"])


def explained(case: str, stage: str, change: Change) -> list[str]:
    """Names of what explains a stage of a golden, changed by hand; the best first, and the equally good ones."""
    golden: Recording = read(GOLDEN_ROOT / "cases" / "tokenization" / f"{case}.pb")
    changed = pb.Tokenization()
    changed.CopyFrom(golden.tokenization)
    change(changed)
    candidate = replace(golden, tokenization=changed, source="candidate.pb")
    faults = diagnose_tokenization(golden, candidate, directory_of(golden, None)).faults
    (fault,) = [fault for fault in faults if fault.stage == stage]
    best = fault.explanations[0].contradicted
    return [
        explanation.name
        for explanation in fault.explanations
        if explanation.whole == explanation.of and explanation.contradicted == best
    ]


def plain(tokenization: pb.Tokenization) -> Iterator[tuple[pb.Encoding, pb.Segment]]:
    return (
        (encoding, s) for encoding in tokenization.encoding for s in encoding.segment if not s.HasField("added_token")
    )


def normalized(form: Callable[[str], str]) -> Change:
    def change(tokenization: pb.Tokenization) -> None:
        for encoding, segment in plain(tokenization):
            segment.normalized = form(encoding.text[segment.begin : segment.end])

    return change


def cut(pattern: str) -> Change:
    def change(tokenization: pb.Tokenization) -> None:
        for _, segment in plain(tokenization):
            text = segment.normalized
            sizes = list(accumulate((len(character.encode()) for character in text), initial=0))
            del segment.pre_token[:]
            for match in re.finditer(pattern, text):
                (begin, end) = match.span()
                segment.pre_token.add(begin=begin, end=end, begin_byte=sizes[begin], end_byte=sizes[end])

    return change


def pieces(of: Callable[[pb.Segment, pb.PreToken], None]) -> Change:
    def change(tokenization: pb.Tokenization) -> None:
        for _, segment in plain(tokenization):
            for piece in segment.pre_token:
                of(segment, piece)

    return change


def symbols_of(change: Callable[[str], str]) -> Change:
    def of(segment: pb.Segment, piece: pb.PreToken) -> None:
        piece.symbols = change(segment.normalized[piece.begin : piece.end])

    return pieces(of)


def ids(change: Callable[[list[int]], list[int]]) -> Change:
    def all_of(tokenization: pb.Tokenization) -> None:
        for encoding in tokenization.encoding:
            encoding.id[:] = change(list(encoding.id))

    return all_of


def offsets(size: Callable[[str], int]) -> Change:
    def all_of(tokenization: pb.Tokenization) -> None:
        for encoding in tokenization.encoding:
            for span in encoding.offset:
                span.begin, span.end = size(encoding.text[: span.begin]), size(encoding.text[: span.end])

    return all_of


def decoded(change: Callable[[pb.Decoding], None]) -> Change:
    def all_of(tokenization: pb.Tokenization) -> None:
        for decoding in tokenization.decoding:
            change(decoding)

    return all_of


def _alone(decoding: pb.Decoding) -> None:
    if not decoding.skip_special_tokens:
        decoding.text = "".join(piece.decode(errors="replace") for piece in decoding.piece)


def _chunks_alone(decoding: pb.Decoding) -> None:
    if not decoding.skip_special_tokens:
        decoding.chunk[:] = [*(piece.decode(errors="replace") for piece in decoding.piece), ""]


def _no_end(decoding: pb.Decoding) -> None:
    if not decoding.skip_special_tokens:
        decoder = getincrementaldecoder("utf-8")("replace")
        decoding.chunk[:] = [decoder.decode(piece) for piece in decoding.piece]


def rows(change: Callable[[pb.Batch, pb.BatchRow], None]) -> Change:
    def all_of(tokenization: pb.Tokenization) -> None:
        for batch in tokenization.batch:
            for row in batch.row:
                change(batch, row)

    return all_of


def _left(_: pb.Batch, row: pb.BatchRow) -> None:
    both = sorted(zip(row.attention_mask, row.input_id, strict=True), key=lambda pair: pair[0])
    row.attention_mask[:], row.input_id[:] = [mask for mask, _ in both], [number for _, number in both]


def _inverted(_: pb.Batch, row: pb.BatchRow) -> None:
    row.attention_mask[:] = [1 - bit for bit in row.attention_mask]


def _thinking(tokenization: pb.Tokenization) -> None:
    for conversation in tokenization.conversation:
        if conversation.thinking == pb.THINKING_OFF and conversation.add_generation_prompt:
            conversation.rendered = conversation.rendered.removesuffix("<think>\n\n</think>\n\n")


def _latin1(text: str) -> str:
    return text.encode().decode("latin-1")


MADE: dict[str, tuple[str, Change]] = {
    "normalized.missing": ("unicode", normalized(str)),
    "normalized.nfd": ("unicode", normalized(lambda text: unicodedata.normalize("NFD", text))),
    "normalized.nfkc": ("unicode", normalized(lambda text: unicodedata.normalize("NFKC", text))),
    "normalized.nfkd": ("unicode", normalized(lambda text: unicodedata.normalize("NFKD", text))),
    "normalized.stripped": ("whitespace", normalized(str.strip)),
    "pre_tokens.missing": ("words", cut(r"(?s).+")),
    "pre_tokens.words_and_spaces": ("code", cut(r"\S+|\s+")),
    "pre_tokens.characters": ("words", cut(r"(?s).")),
    "symbols.characters": ("unicode", symbols_of(str)),
    "symbols.raw_bytes": ("unicode", symbols_of(_latin1)),
    "merges.missing": ("words", pieces(lambda _, piece: piece.merge.__delitem__(slice(None)))),
    "merges.header_counted": (
        "words",
        pieces(lambda _, piece: piece.merge.__setitem__(slice(None), [rank + 1 for rank in piece.merge])),
    ),
    "ids.bos_added": ("words", ids(lambda numbers: [FIRST_ADDED, *numbers])),
    "ids.last_missing": ("words", ids(lambda numbers: numbers[:-1])),
    "ids.added_dropped": (
        "special_tokens",
        ids(lambda numbers: [number for number in numbers if number < FIRST_ADDED]),
    ),
    "offsets.bytes": ("unicode", offsets(lambda text: len(text.encode()))),
    "offsets.utf16_units": ("unicode", offsets(lambda text: len(text.encode("utf-16-le")) // 2)),
    "decoded.each_id_alone": ("decoding", decoded(_alone)),
    "chunks.each_id_alone": ("decoding", decoded(_chunks_alone)),
    "chunks.end_missing": ("decoding", decoded(_no_end)),
    "batch.padded_left": ("batches", rows(_left)),
    "batch.mask_inverted": ("batches", rows(_inverted)),
    "rendered.thinking_flag_ignored": ("chat", _thinking),
}


@pytest.mark.sample(every=7)
@pytest.mark.parametrize("name", MADE)
def test_a_mistake_made_by_hand_is_named(name: str) -> None:
    case, change = MADE[name]
    assert name in explained(case, name.split(".")[0], change)


def test_every_stage_has_named_mistakes() -> None:
    assert list(TABLE) == list(STAGES) and all(stage.wrong for stage in TABLE.values())


def test_names_begin_with_their_stage_and_every_line_is_one() -> None:
    for name, stage in TABLE.items():
        for mistake in stage.wrong:
            assert re.fullmatch(rf"{name}\.[a-z0-9_]+", mistake.name)
            assert mistake.says and mistake.fix and "\n" not in mistake.says + mistake.fix


def test_the_lowest_rank_first_is_what_merging_by_the_smallest_order_does() -> None:
    ranks = {("a", "a"): 0, ("aa", "a"): 1, ("b", "c"): 2, ("a", "b"): 3}
    symbols, applied = best_first("aaaabc", ranks.get, lambda rank, pair, at: rank)
    assert symbols == ("aa", "aa", "bc") and applied == (0, 0, 2)
