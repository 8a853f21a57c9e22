"""Wrong ways to make one rectangle of several texts' ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.rectangle import Shape, cut_off, rectangle, rows_of
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State


def _shaped(change: Callable[[Oracle, pb.Batch, Shape], Shape]) -> Compute:
    def compute(oracle: Oracle, given: pb.Batch, _: State) -> Any:
        return rectangle(rows_of(oracle, given), change(oracle, given, Shape.of(oracle, given)))

    return compute


def _rows(change: Callable[[Oracle, pb.Batch, Sequence[int]], Sequence[int]]) -> Compute:
    """The ids of each text changed before they are cut and padded."""

    def compute(oracle: Oracle, given: pb.Batch, _: State) -> Any:
        rows = [change(oracle, given, row) for row in rows_of(oracle, given)]
        return rectangle(rows, Shape.of(oracle, given))

    return compute


def _after(change: Callable[[Shape, tuple[int, ...], tuple[int, ...]], tuple[Sequence[int], Sequence[int]]]) -> Compute:
    """The right rectangle, changed row by row."""

    def compute(oracle: Oracle, given: pb.Batch, _: State) -> Any:
        shape = Shape.of(oracle, given)
        found = [change(shape, ids, mask) for ids, mask in rectangle(rows_of(oracle, given), shape)]
        return tuple((tuple(ids), tuple(mask)) for ids, mask in found)

    return compute


def _pad(number: Callable[[Oracle], int | None]) -> Compute:
    def change(oracle: Oracle, given: pb.Batch, shape: Shape) -> Shape:
        pad = number(oracle)
        if pad is None:
            raise ValueError("the tokenizer has no such token")
        return replace(shape, pad=pad)

    return _shaped(change)


def _other(side: str) -> str:
    return "right" if side == "left" else "left"


def _unpadded(shape: Shape, ids: tuple[int, ...], mask: tuple[int, ...]) -> tuple[Sequence[int], Sequence[int]]:
    kept = [number for number, real in zip(ids, mask, strict=True) if real]
    return kept, [1] * len(kept)


def _ends(oracle: Oracle, given: pb.Batch, row: Sequence[int]) -> Sequence[int]:
    end = oracle.reference.tokenizer.eos_token_id
    most = given.max_length
    return [*(row[: most - 1] if most else row), *([end] if end is not None else [])]


def _moved(shape: Shape, ids: tuple[int, ...], mask: tuple[int, ...]) -> tuple[Sequence[int], Sequence[int]]:
    """The mask is that of the other side."""
    return ids, mask[::-1]


WRONG: list[Wrong] = [
    *wrong_ways(
        "batch",
        "pad with the tokenizer's pad token (Qwen: <|endoftext|>), nothing else",
        [
            ("pad_is_eos", "pads with the token that ends a turn (eos)",
                _pad(lambda o: o.reference.tokenizer.eos_token_id)),
            ("pad_is_zero", "pads with id 0", _pad(lambda o: 0)),
            ("pad_is_unk", "pads with the unknown token", _pad(lambda o: o.reference.tokenizer.unk_token_id)),
            ("pad_is_bos", "pads with the token that begins a text",
                _pad(lambda o: o.reference.tokenizer.bos_token_id)),
            ("pad_is_start", "pads with <|im_start|>",
                _pad(lambda o: o.reference.backend.token_to_id("<|im_start|>"))),
            ("pad_is_last", "pads with the last id", _pad(lambda o: max(o.pieces))),
            ("pad_is_one", "pads with id 1", _pad(lambda o: 1)),
        ],
    ),
    *wrong_ways(
        "batch",
        "pad on padding_side, to the longest row, up to the next multiple of pad_to_multiple_of",
        [
            ("padded_left", "always pads on the left", _shaped(lambda o, g, s: replace(s, padding="left"))),
            ("padded_right", "always pads on the right", _shaped(lambda o, g, s: replace(s, padding="right"))),
            ("other_side", "pads on the other side", _shaped(lambda o, g, s: replace(s, padding=_other(s.padding)))),
            ("padding_and_cut_exchanged", "takes the side of padding for that of truncation, and the reverse",
                _shaped(lambda o, g, s: replace(s, padding=s.cut, cut=s.padding))),
            ("padding_of_cut", "pads where ids are cut off", _shaped(lambda o, g, s: replace(s, padding=s.cut))),
            ("padded_to_max_length", "pads to max_length", _shaped(lambda o, g, s: replace(s, longest=s.most))),
            ("multiple_ignored", "ignores pad_to_multiple_of", _shaped(lambda o, g, s: replace(s, multiple=0))),
            ("multiple_too_many", "goes on to the next multiple also from a multiple", lambda o, g, _: _beyond(o, g)),
            ("multiple_below", "rounds down to a multiple", lambda o, g, _: _below(o, g)),
            ("not_padded", "does not pad", _after(_unpadded)),
            ("cut_after_padding", "pads before it cuts", lambda o, g, _: _cut_late(o, g)),
        ],
    ),
    *wrong_ways(
        "batch",
        "cut rows longer than max_length off on truncation_side, before padding",
        [
            ("not_cut", "does not cut rows off", _shaped(lambda o, g, s: replace(s, most=0))),
            ("cut_left", "always cuts off on the left", _shaped(lambda o, g, s: replace(s, cut="left"))),
            ("cut_right", "always cuts off on the right", _shaped(lambda o, g, s: replace(s, cut="right"))),
            ("cut_exchanged", "cuts off on the other side", _shaped(lambda o, g, s: replace(s, cut=_other(s.cut)))),
            ("cut_at_padding_side", "cuts off where it pads", _shaped(lambda o, g, s: replace(s, cut=s.padding))),
            ("cut_short", "cuts off one id too many",
                _shaped(lambda o, g, s: replace(s, most=s.most - 1) if s.most > 1 else s)),
            ("cut_short", "cuts off one id too many, nothing where one is asked for",
                _shaped(lambda o, g, s: replace(s, most=max(s.most - 1, 0)))),
            ("cut_one_late", "cuts off one id too few",
                _shaped(lambda o, g, s: replace(s, most=s.most + 1) if s.most else s)),
        ],
    ),
    *wrong_ways(
        "batch",
        "the mask is 1 for every id that stands for text, 0 for padding, whatever the ids are",
        [
            ("mask_inverted", "has 0 for real ids and 1 for padding",
                _after(lambda s, ids, mask: (ids, [1 - one for one in mask]))),
            ("mask_ones", "has 1 everywhere", _after(lambda s, ids, mask: (ids, [1] * len(ids)))),
            ("mask_by_id", "takes every pad token for padding, also one in a text",
                _after(lambda s, ids, mask: (ids, [int(n != s.pad) for n in ids]))),
            ("mask_other_side", "puts the zeros on the other side", _after(_moved)),
            ("mask_empty", "has 0 everywhere", _after(lambda s, ids, mask: (ids, [0] * len(ids)))),
            ("mask_missing", "has no mask", _after(lambda s, ids, mask: (ids, ()))),
            ("mask_shows_one", "has 1 for the first padding too", _after(lambda s, ids, mask: (ids, _one_more(mask)))),
        ],
    ),
    *wrong_ways(
        "batch",
        "take the ids of each text as they are",
        [
            ("eos_added", "ends every row with the eos token", _rows(_ends)),
            ("eos_added", "ends every row with the eos token, then cuts",
                _rows(lambda o, g, row: [*row, int(o.reference.tokenizer.eos_token_id or 0)])),
            ("bos_added", "begins every row with the eos token",
                _rows(lambda o, g, row: [int(o.reference.tokenizer.eos_token_id or 0), *row])),
            ("bos_added", "begins every row with the pad token",
                _rows(lambda o, g, row: [int(o.reference.tokenizer.pad_token_id or 0), *row])),
            ("special_dropped", "leaves out special tokens",
                _rows(lambda o, g, row: [n for n in row if n not in o.reference.special])),
            ("added_dropped", "leaves out added tokens",
                _rows(lambda o, g, row: [n for n in row if n not in o.reference.added])),
        ],
    ),
    *wrong_ways(
        "batch",
        "give one row for each text, in their order",
        [
            ("rows_sorted", "sorts rows by length",
                lambda o, g, _: tuple(sorted(_right(o, g), key=lambda row: sum(row[1])))),
            ("rows_sorted", "sorts rows by length, the longest first",
                lambda o, g, _: tuple(sorted(_right(o, g), key=lambda row: -sum(row[1])))),
            ("rows_reversed", "gives the rows in reverse", lambda o, g, _: _right(o, g)[::-1]),
            ("empty_left_out", "leaves out empty texts",
                lambda o, g, _: tuple(row for row in _right(o, g) if sum(row[1]))),
        ],
    ),
]  # fmt: skip
"""Of the stage `batch`."""


def _right(oracle: Oracle, given: pb.Batch) -> Any:
    return rectangle(rows_of(oracle, given), Shape.of(oracle, given))


def _width(oracle: Oracle, given: pb.Batch, shape: Shape) -> int:
    return max((len(cut_off(row, shape)) for row in rows_of(oracle, given)), default=0)


def _beyond(oracle: Oracle, given: pb.Batch) -> Any:
    shape = Shape.of(oracle, given)
    if not shape.multiple:
        return rectangle(rows_of(oracle, given), shape)
    width = (_width(oracle, given, shape) // shape.multiple + 1) * shape.multiple
    return rectangle(rows_of(oracle, given), replace(shape, longest=width))


def _below(oracle: Oracle, given: pb.Batch) -> Any:
    shape = Shape.of(oracle, given)
    width = _width(oracle, given, shape)
    most = width // shape.multiple * shape.multiple if shape.multiple else shape.most
    return rectangle(rows_of(oracle, given), replace(shape, most=most or width))


def _cut_late(oracle: Oracle, given: pb.Batch) -> Any:
    shape = Shape.of(oracle, given)
    padded = rectangle(rows_of(oracle, given), replace(shape, most=0))
    return tuple((tuple(cut_off(ids, shape)), tuple(cut_off(mask, shape))) for ids, mask in padded)


def _one_more(mask: Sequence[int]) -> list[int]:
    out, zeros = list(mask), [place for place, one in enumerate(mask) if not one]
    for place in zeros[:1] if mask[:1] == (1,) else zeros[-1:]:
        out[place] = 1
    return out
