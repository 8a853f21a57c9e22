"""One stage alone, by Hugging Face's own parts, on whatever the stages before it gave: the truth of blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Ids, Oracle, Piece, State
from qwen3_reference.tokenization.chat import batch, conversation
from qwen3_reference.tokenization.decoding import decoding, piece_bytes


def pieces_of(normalized: str, ends: Sequence[tuple[int, int]]) -> tuple[Piece, ...]:
    """Spans in characters with their bytes beside them."""
    starts = list(accumulate((len(character.encode()) for character in normalized), initial=0))
    return tuple(Piece(begin, end, starts[begin], starts[end]) for begin, end in ends)


def texts_of(state: State) -> list[str]:
    """The text of each pre-token, in order."""
    pairs = zip(state["normalized"], state["pre_tokens"], strict=False)
    return [text[piece.begin : piece.end] for text, pieces in pairs for piece in pieces]


def replayed(oracle: Oracle, symbols: str, ranks: Sequence[int]) -> tuple[str, ...] | None:
    """The pieces after these merges, each at the leftmost place that has its pair; None where it has none."""
    pieces, table = [one for one in symbols if one in oracle.vocabulary], oracle.reference.merges.pairs
    at = 0
    for number, rank in enumerate(ranks):
        pair = tuple(table[rank]) if 0 <= rank < len(table) else ()
        at = at if number and ranks[number - 1] == rank else 0
        while at + 1 < len(pieces) and (pieces[at], pieces[at + 1]) != pair:
            at += 1
        if at + 1 >= len(pieces):
            return None
        pieces[at : at + 2] = ["".join(pair)]
    return tuple(pieces)


def woven(state: State, each: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The ids of the whole text: added tokens and pre-tokens in the order of the segments."""
    whole: list[int] = []
    counts = iter([len(pieces) for pieces in state["pre_tokens"]])
    rest = iter(each)
    for _, _, added in state["segments"]:
        whole += [added] if added is not None else [one for _ in range(next(counts, 0)) for one in next(rest, ())]
    return tuple(whole)


def _segments(oracle: Oracle, given: pb.Encoding, _: State) -> Any:
    return segments_of(oracle.encoding(given))


def segments_of(message: pb.Encoding) -> Any:
    """The segments of a message as a value of a state."""
    return tuple((s.begin, s.end, s.added_token if s.HasField("added_token") else None) for s in message.segment)


def _normalized(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
    plain = [given.text[begin:end] for begin, end, added in state["segments"] if added is None]
    normalizer = oracle.reference.backend.normalizer
    return tuple(plain if normalizer is None else map(normalizer.normalize_str, plain))


def _pre_tokens(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
    cutter = oracle.reference.backend.pre_tokenizer
    return tuple(pieces_of(t, [span for _, span in cutter.pre_tokenize_str(t)]) for t in state["normalized"])


def _symbols(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
    return tuple(map(oracle.symbols, texts_of(state)))


def _merges(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
    state["cut"] = tuple(map(oracle.cut, state["symbols"]))
    return tuple(tuple(oracle.reference.merges.applied(pieces)) for pieces in state["cut"])


def _ids(oracle: Oracle, _: pb.Encoding, state: State) -> Any:
    cuts = state.get("cut") or [
        replayed(oracle, symbols, ranks) for symbols, ranks in zip(state["symbols"], state["merges"], strict=False)
    ]
    known = oracle.vocabulary
    each = tuple(tuple(known[piece] for piece in cut or () if piece in known) for cut in cuts)
    return Ids(each, woven(state, each))


def _pieces(oracle: Oracle, given: pb.Decoding, _: State) -> Any:
    return tuple(piece_bytes(oracle.pieces.get(number, "")) for number in given.id)


def _decoded(oracle: Oracle, given: pb.Decoding, state: State) -> Any:
    skipped = oracle.reference.special if given.skip_special_tokens else frozenset()
    kept = [piece for number, piece in zip(given.id, state["pieces"], strict=False) if number not in skipped]
    return b"".join(kept).decode(errors="replace")


def _chunks(oracle: Oracle, given: pb.Decoding, state: State) -> Any:
    """Hugging Face's own; of another text only the join is known."""
    right = decoding(oracle.reference, given)
    return tuple(right.chunk) if right.text == state["decoded"] else ("",) * len(given.id) + (state["decoded"],)


def _batch(oracle: Oracle, given: pb.Batch, _: State) -> Any:
    return tuple((tuple(row.input_id), tuple(row.attention_mask)) for row in batch(oracle.reference, given).row)


def _rendered(oracle: Oracle, given: pb.Conversation, _: State) -> Any:
    return conversation(oracle.reference, given).rendered


def _rendered_ids(oracle: Oracle, _: pb.Conversation, state: State) -> Any:
    return oracle.encoded(state["rendered"])


def _offsets(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
    """Hugging Face maps ids of its own alone: None where the ids are others."""
    found = oracle.encoding(given)
    return tuple((o.begin, o.end) for o in found.offset) if tuple(found.id) == state["ids"].whole else None


TRUTH: Mapping[str, Callable[[Oracle, Any, State], Any]] = {
    "segments": _segments,
    "normalized": _normalized,
    "pre_tokens": _pre_tokens,
    "symbols": _symbols,
    "merges": _merges,
    "ids": _ids,
    "offsets": _offsets,
    "pieces": _pieces,
    "decoded": _decoded,
    "chunks": _chunks,
    "batch": _batch,
    "rendered": _rendered,
    "rendered_ids": _rendered_ids,
}
"""Every stage as a function of the given fields and the values of the stages before it."""
