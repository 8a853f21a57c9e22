"""Which stages of a tokenization are wrong: each judged on the candidate's own earlier stages.

So one early fault hides no later one. Stages that a candidate does not tell are computed through, and judged with the
next one that it tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qwen3_golden import Recording, pb
from qwen3_golden.stages import BATCH, CONVERSATION, DECODING, ENCODING
from qwen3_parity.text.oracle import Ids, Oracle, Piece, State
from qwen3_parity.text.stages_of import TRUTH, segments_of, woven
from qwen3_parity.text.streams import early, late

_INSIDE = frozenset({"pre_tokens", "symbols", "merges"})
"""Stages that show pre-tokens one by one."""


@dataclass(frozen=True, eq=False)
class StageVerdict:
    """One stage of one text on its own inputs.

    `others` are the stages before it that are not told. `inputs` are the values of the stages before those, `given` the
    message as it was recorded, `right` is None where it cannot be judged.
    """

    stage: str
    others: tuple[str, ...]
    given: Any
    inputs: State
    got: Any
    expected: Any
    right: bool | None

    @property
    def stages(self) -> tuple[str, ...]:
        """The group that is judged together."""
        return *self.others, self.stage

    def same(self, oracle: Oracle, value: Any, inputs: State | None = None) -> bool:
        """Whether the candidate's value is this one, where more than one is right: one of those."""
        return _same(oracle, self.stage, self.got, value, self.inputs if inputs is None else inputs)


def _plain(message: pb.Encoding) -> list[pb.Segment]:
    return [segment for segment in message.segment if not segment.HasField("added_token")]


def _inside(message: pb.Encoding) -> list[pb.PreToken]:
    return [piece for segment in _plain(message) for piece in segment.pre_token]


def _told(message: Any, stage: str, told: Sequence[str]) -> Any:
    """What a recording tells of a stage, as a value of a state."""
    views: Mapping[str, Callable[[], Any]] = {
        "segments": lambda: segments_of(message),
        "normalized": lambda: tuple(segment.normalized for segment in _plain(message)),
        "pre_tokens": lambda: tuple(
            tuple(Piece(p.begin, p.end, p.begin_byte, p.end_byte) for p in segment.pre_token)
            for segment in _plain(message)
        ),
        "symbols": lambda: tuple(piece.symbols for piece in _inside(message)),
        "merges": lambda: tuple(tuple(piece.merge) for piece in _inside(message)),
        "ids": lambda: Ids(
            tuple(tuple(piece.id) for piece in _inside(message)) if _INSIDE & set(told) else None, tuple(message.id)
        ),
        "offsets": lambda: tuple((span.begin, span.end) for span in message.offset),
        "pieces": lambda: tuple(message.piece),
        "decoded": lambda: message.text,
        "chunks": lambda: tuple(message.chunk),
        "batch": lambda: tuple((tuple(row.input_id), tuple(row.attention_mask)) for row in message.row),
        "rendered": lambda: message.rendered,
        "rendered_ids": lambda: tuple(message.id),
    }
    return views[stage]()


def _same(oracle: Oracle, stage: str, got: Any, value: Any, state: State) -> bool:
    if got == value:
        return True
    if stage == "chunks":
        whole = len(got) == len(value) and "".join(got) == "".join(value)
        return whole and late(value, got) is None and not _ahead(got, state)
    if stage == "ids" and got.each is None:
        return bool(got.whole == value.whole)
    return False


def _ahead(got: Sequence[str], state: State) -> bool:
    """Whether a stream gives out what its pieces have not brought; where they are not its text, nobody knows."""
    pieces = state.get("pieces") or ()
    known = b"".join(pieces).decode(errors="replace") == "".join(got)
    return known and early(pieces, got) is not None


def _right(oracle: Oracle, stage: str, given: Any, got: Any, expected: Any, state: State) -> bool | None:
    """None: there is nothing to judge it by."""
    if expected is None:
        return None
    if _same(oracle, stage, got, expected, state):
        return True
    # A stream does not go through the text of all ids: it may be right where that is wrong.
    if stage == "chunks" and "pieces" in state and "".join(got) != "".join(expected):
        text = TRUTH["decoded"](oracle, given, state)
        return _same(oracle, stage, got, ("",) * len(given.id) + (text,), state)
    if stage == "symbols":
        return _symbols_of_some_reading(oracle, got, state)
    if stage == "ids" and got.each is not None and "cut" not in state:
        return got.whole == woven(state, got.each) and _spelt(oracle, got.each, expected.each, state)
    return False


def _symbols_of_some_reading(oracle: Oracle, got: Sequence[str], state: State) -> bool:
    """Wrong spans are the pre-tokens' fault: symbols are right for the characters, the bytes, or the true cut."""
    readings = []
    for text, pieces in zip(state["normalized"], state["pre_tokens"], strict=False):
        data = text.encode()
        true = TRUTH["pre_tokens"](oracle, None, {"normalized": (text,)})[0]
        for number, piece in enumerate(pieces):
            one = {text[piece.begin : piece.end], data[piece.begin_byte : piece.end_byte].decode(errors="replace")}
            if len(true) == len(pieces):
                one.add(text[true[number].begin : true[number].end])
            readings.append({oracle.symbols(reading) for reading in one})
    return len(got) == len(readings) and all(one in some for one, some in zip(got, readings, strict=True))


def _spelt(oracle: Oracle, got: Sequence[tuple[int, ...]], expected: Sequence[tuple[int, ...]], state: State) -> bool:
    """Where merges are wrong, they do not tell the pieces: ids are right that follow from some places."""
    for ids, wanted, symbols, ranks in zip(got, expected, state["symbols"], state["merges"], strict=False):
        if ids != wanted and tuple(oracle.reference.merges.applied(oracle.cut(symbols))) == ranks:
            return False
    return _follows(oracle, got, expected, state)


def _follows(oracle: Oracle, got: Sequence[tuple[int, ...]], expected: Sequence[tuple[int, ...]], state: State) -> bool:
    """Whether each pre-token's ids spell its symbols in as many pieces as its merges leave."""
    if len(got) != len(state["symbols"]):
        return False
    for ids, wanted, symbols, ranks in zip(got, expected, state["symbols"], state["merges"], strict=False):
        known = [symbol for symbol in symbols if symbol in oracle.vocabulary]
        pieces = [oracle.pieces.get(number, "") for number in ids]
        if ids != wanted and ("".join(pieces) != "".join(known) or len(pieces) != len(known) - len(ranks)):
            return False
    return True


def told_by_merges(oracle: Oracle, verdict: StageVerdict) -> bool:
    """Whether wrong ids may only be those of merges at other places, which ranks alone do not tell."""
    if verdict.stage != "ids" or verdict.others or verdict.got.each is None:
        return False
    whole = verdict.got.whole == woven(verdict.inputs, verdict.got.each)
    return whole and _follows(oracle, verdict.got.each, verdict.expected.each, verdict.inputs)


def judged(oracle: Oracle, message: Any, stages: Sequence[str], told: Sequence[str]) -> Iterator[StageVerdict]:
    """The told stages of one text, in order."""
    state: State = {}
    base: State = {}
    others: tuple[str, ...] = ()
    for stage in stages:
        after = dict(state)
        expected = TRUTH[stage](oracle, message, after)
        if stage not in told:
            others = (*others, stage)
            state = after | {stage: expected}
            continue
        got = _told(message, stage, told)
        right = _right(oracle, stage, message, got, expected, state)
        yield StageVerdict(stage, others, message, base, got, expected, right)
        state[stage] = got
        base, others = dict(state), ()


_KINDS = (("encoding", ENCODING), ("decoding", DECODING), ("batch", BATCH), ("conversation", CONVERSATION))


def blame(oracle: Oracle, candidate: Recording) -> list[StageVerdict]:
    """Every stage that the candidate tells, of each of its texts."""
    told = candidate.run.materialised
    return [
        verdict
        for kind, stages in _KINDS
        for message in getattr(candidate.tokenization, kind)
        for verdict in judged(oracle, message, stages, told)
    ]
