"""A golden of a tokenization made by hand, ways to spoil a copy of it stage by stage, and pages as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO

from rich.console import Console, RenderableType

from qwen3_golden import STAGES, Recording, pb
from qwen3_parity.judge.verdict import Verdicts

Change = Callable[[pb.Tokenization], None]


def by_hand() -> Recording:
    """A golden of two texts, two lists of ids, a batch and a conversation; its numbers mean nothing."""
    made = pb.Tokenization()
    text = made.encoding.add(name="words", text="Hello <x> you", id=[7, 8, 90, 9, 5])
    text.offset.extend(pb.Span(begin=b, end=e) for b, e in ((0, 3), (3, 5), (5, 9), (9, 12), (12, 13)))
    left = text.segment.add(begin=0, end=5, normalized="Hello")
    left.pre_token.add(begin=0, end=5, begin_byte=0, end_byte=5, symbols="Hello", merge=[1, 2, 0], id=[7, 8])
    text.segment.add(begin=5, end=9, added_token=90)
    right = text.segment.add(begin=9, end=13, normalized=" you")
    right.pre_token.add(begin=0, end=1, begin_byte=0, end_byte=1, symbols="Ġ", id=[9])
    right.pre_token.add(begin=1, end=4, begin_byte=1, end_byte=4, symbols="you", merge=[4], id=[5])
    made.encoding.add(name="empty")
    ids = made.decoding.add(name="cut", id=[3, 4, 5], text="a\u00e9\ufffd", chunk=["a", "", "\u00e9", "\ufffd"])
    ids.piece.extend([b"a\xc3", b"\xa9", b"\xf0\x9f"])
    made.decoding.add(name="none", chunk=[""])
    rows = made.batch.add(name="rows", text=["x", "x y"], padding_side="right", truncation_side="right")
    rows.row.add(input_id=[1, 0], attention_mask=[1, 0])
    rows.row.add(input_id=[1, 2], attention_mask=[1, 1])
    made.conversation.add(name="talk", messages="[]", rendered="<|im_start|>", id=[90])
    case = pb.Case(name="tokenization/by_hand", tier=pb.TIER_TEXT, mode=pb.TOKENIZATION)
    case.checkpoint.add(role="tokenizer", name="none", sha256=bytes(32))
    run = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE, materialised=STAGES)
    return Recording(case, pb.Provenance(producer="hand"), run, [], tokenization=made, source="golden.pb")


def changed(golden: Recording, change: Change = lambda _: None, stages: Sequence[str] = STAGES) -> Recording:
    """A candidate: the golden with one thing changed, which declares `stages`."""
    made = pb.Tokenization()
    made.CopyFrom(golden.tokenization)
    change(made)
    run = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE, materialised=stages)
    return replace(golden, tokenization=made, run=run, source="candidate.pb")


def without(stage: str) -> Change:
    """Take everything of one stage out of a tokenization."""

    def change(made: pb.Tokenization) -> None:
        for text in made.encoding:
            if stage in ("ids", "offsets"):
                text.ClearField("id" if stage == "ids" else "offset")
            for segment in text.segment:
                if stage == "normalized":
                    segment.ClearField("normalized")
                for name in ("begin", "end", "added_token") if stage == "segments" else ():
                    segment.ClearField(name)  # type: ignore[arg-type]
                own = {
                    "pre_tokens": ("begin", "end", "begin_byte", "end_byte"),
                    "symbols": ("symbols",),
                    "merges": ("merge",),
                    "ids": ("id",),
                }
                for one in segment.pre_token:
                    for name in own.get(stage, ()):
                        one.ClearField(name)  # type: ignore[arg-type]
        for decoding in made.decoding:
            for name in {"pieces": ("piece",), "decoded": ("text",), "chunks": ("chunk",)}.get(stage, ()):
                decoding.ClearField(name)  # type: ignore[arg-type]
        for batch in made.batch if stage == "batch" else ():
            batch.ClearField("row")
        for talk in made.conversation:
            if stage in ("rendered", "rendered_ids"):
                talk.ClearField("rendered" if stage == "rendered" else "id")

    return change


def failing(verdicts: Verdicts) -> list[str]:
    return [tap.name.removeprefix("tokenizer.") for tap in verdicts.taps if not tap.passed]


def set_offset(made: pb.Tokenization) -> None:
    made.encoding[0].offset[1].end += 1


def set_mask(made: pb.Tokenization) -> None:
    made.batch[0].row[0].attention_mask[1] = 1


SPOILT: dict[str, Change] = {
    "segments": lambda made: setattr(made.encoding[0].segment[1], "added_token", 91),
    "normalized": lambda made: setattr(made.encoding[0].segment[2], "normalized", "_you"),
    "pre_tokens": lambda made: setattr(made.encoding[0].segment[2].pre_token[0], "end_byte", 2),
    "symbols": lambda made: setattr(made.encoding[0].segment[2].pre_token[0], "symbols", "_"),
    "merges": lambda made: made.encoding[0].segment[0].pre_token[0].merge.__setitem__(slice(0, 2), [2, 1]),
    "ids": lambda made: made.encoding[0].id.__setitem__(4, 6),
    "offsets": set_offset,
    "pieces": lambda made: made.decoding[0].piece.__setitem__(1, b"\xaa"),
    "decoded": lambda made: setattr(made.decoding[0], "text", "a\u00e9"),
    "chunks": lambda made: made.decoding[0].chunk.__setitem__(1, "\ufffd"),
    "batch": set_mask,
    "rendered": lambda made: setattr(made.conversation[0], "rendered", "<|im_start|> "),
    "rendered_ids": lambda made: made.conversation[0].id.append(90),
}


def text_of(page: RenderableType) -> str:
    console = Console(width=200, file=StringIO())
    console.print(page)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()
