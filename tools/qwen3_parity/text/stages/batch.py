"""The stage `batch`: several texts' ids as one rectangle. Its value: (ids, mask) of each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, directly, wrong_ways
from qwen3_parity.text.view import Views, view

Row = tuple[tuple[int, ...], tuple[int, ...]]
_OTHER = {"left": "right", "right": "left"}


def _observed(message: pb.Batch) -> tuple[Row, ...]:
    return tuple((tuple(row.input_id), tuple(row.attention_mask)) for row in message.row)


def _views(message: pb.Batch) -> Views:
    views = dict(view("rows", [None] * len(message.row), lambda _: "a row"))
    for index, (ids, mask) in enumerate(_observed(message)):
        views |= view(f"input_ids of row {index}", ids)
        views |= view(f"attention_mask of row {index}", mask)
    return views


@dataclass(frozen=True)
class Shape:
    """How rows are cut and padded: `pad` is an id; `padding` and `cut` are sides; rows get at least `width` ids."""

    pad: int
    padding: str
    cut: str
    most: int
    multiple: int
    width: int = 0

    @classmethod
    def of(cls, oracle: Oracle, message: pb.Batch) -> Shape:
        """The right one; raises `ValueError` where there is no pad token."""
        pad = oracle.token("pad")
        if pad is None:
            raise ValueError("the tokenizer has no pad token")
        sides = message.padding_side, message.truncation_side
        return cls(pad, *sides, message.max_length, message.pad_to_multiple_of)

    def truncated(self, row: Sequence[int]) -> Sequence[int]:
        """The ids of a row that are not cut off."""
        if not self.most or len(row) <= self.most:
            return row
        return row[-self.most :] if self.cut == "left" else row[: self.most]

    def longest(self, rows: Sequence[Sequence[int]]) -> int:
        """How many ids the longest row keeps."""
        return max((len(self.truncated(row)) for row in rows), default=0)

    def rectangle(self, rows: Sequence[Sequence[int]]) -> tuple[Row, ...]:
        """Rows cut, then padded to the longest, with their masks."""
        width = max(self.longest(rows), self.width)
        width = -(-width // self.multiple) * self.multiple if self.multiple else width
        return tuple(self._padded(self.truncated(row), width) for row in rows)

    def _padded(self, row: Sequence[int], width: int) -> Row:
        ids, mask = (self.pad,) * (width - len(row)), (0,) * (width - len(row))
        ones = (1,) * len(row)
        return ((*ids, *row), (*mask, *ones)) if self.padding == "left" else ((*row, *ids), (*ones, *mask))


Rows = list[tuple[int, ...]]


def _of_rows(make: Callable[[Oracle, Shape, Rows], Any]) -> Compute:
    """From the right shape, and Hugging Face's ids of each text."""
    return lambda oracle, message, _: make(oracle, Shape.of(oracle, message), [oracle.encoded(t) for t in message.text])


def _shaped(change: Callable[[Shape], Shape]) -> Compute:
    return _of_rows(lambda _, shape, rows: change(shape).rectangle(rows))


def _pad(number: Callable[[Oracle], int | None]) -> Compute:
    def make(oracle: Oracle, shape: Shape, rows: Rows) -> Any:
        pad = number(oracle)
        if pad is None:
            raise ValueError("the tokenizer has no such token")
        return replace(shape, pad=pad).rectangle(rows)

    return _of_rows(make)


def _beyond(_: Oracle, shape: Shape, rows: Rows) -> Any:
    size = shape.multiple
    return replace(shape, width=(shape.longest(rows) // size + 1) * size if size else 0).rectangle(rows)


def _below(_: Oracle, shape: Shape, rows: Rows) -> Any:
    width, size = shape.longest(rows), shape.multiple
    return replace(shape, most=(width // size * size if size else shape.most) or width).rectangle(rows)


def _cut_late(_: Oracle, shape: Shape, rows: Rows) -> Any:
    padded = replace(shape, most=0).rectangle(rows)
    return tuple((tuple(shape.truncated(ids)), tuple(shape.truncated(mask))) for ids, mask in padded)


_PADS = wrong_ways("batch", _pad, "pad with the tokenizer's pad token (Qwen: <|endoftext|>), nothing else", [
    ("pad_is_eos", "pads with the token that ends a turn (eos)", lambda o: o.token("eos")),
    ("pad_is_zero", "pads with id 0", lambda o: 0),
    ("pad_is_unk", "pads with the unknown token", lambda o: o.token("unk")),
    ("pad_is_bos", "pads with the token that begins a text", lambda o: o.token("bos")),
    ("pad_is_start", "pads with <|im_start|>", lambda o: o.reference.backend.token_to_id("<|im_start|>")),
    ("pad_is_last", "pads with the last id", lambda o: max(o.pieces)),
    ("pad_is_one", "pads with id 1", lambda o: 1),
])  # fmt: skip

_PADDED = wrong_ways("batch", directly,
    "pad on padding_side, to the longest row, up to the next multiple of pad_to_multiple_of", [
    ("padded_left", "always pads on the left", _shaped(lambda s: replace(s, padding="left"))),
    ("padded_right", "always pads on the right", _shaped(lambda s: replace(s, padding="right"))),
    ("other_side", "pads on the other side", _shaped(lambda s: replace(s, padding=_OTHER[s.padding]))),
    ("padding_and_cut_exchanged", "takes the side of padding for that of truncation, and the reverse",
        _shaped(lambda s: replace(s, padding=s.cut, cut=s.padding))),
    ("padding_of_cut", "pads where ids are cut off", _shaped(lambda s: replace(s, padding=s.cut))),
    ("padded_to_max_length", "pads to max_length", _shaped(lambda s: replace(s, width=s.most))),
    ("multiple_ignored", "ignores pad_to_multiple_of", _shaped(lambda s: replace(s, multiple=0))),
    ("multiple_too_many", "goes on to the next multiple also from a multiple", _of_rows(_beyond)),
    ("multiple_below", "rounds down to a multiple", _of_rows(_below)),
    ("not_padded", "does not pad",
        _of_rows(lambda _, s, rs: tuple((tuple(r), (1,) * len(r)) for r in map(s.truncated, rs)))),
    ("cut_after_padding", "pads before it cuts", _of_rows(_cut_late)),
])  # fmt: skip

_CUT = wrong_ways("batch", _shaped, "cut rows longer than max_length off on truncation_side, before padding", [
    ("not_cut", "does not cut rows off", lambda s: replace(s, most=0)),
    ("cut_left", "always cuts off on the left", lambda s: replace(s, cut="left")),
    ("cut_right", "always cuts off on the right", lambda s: replace(s, cut="right")),
    ("cut_exchanged", "cuts off on the other side", lambda s: replace(s, cut=_OTHER[s.cut])),
    ("cut_at_padding_side", "cuts off where it pads", lambda s: replace(s, cut=s.padding)),
    ("cut_short", "cuts off one id too many", lambda s: replace(s, most=s.most - (s.most > 1))),
    ("cut_short", "cuts off one id too many, nothing where it is one", lambda s: replace(s, most=max(s.most - 1, 0))),
    ("cut_one_late", "cuts off one id too few", lambda s: replace(s, most=s.most + (s.most > 0))),
])  # fmt: skip


def _masked(mask: Callable[[Shape, tuple[int, ...], tuple[int, ...]], Sequence[int]]) -> Compute:
    """The right ids with another mask, from the shape, the ids and the right mask of a row."""

    def make(_: Oracle, shape: Shape, rows: Rows) -> Any:
        return tuple((ids, tuple(mask(shape, ids, attention_mask))) for ids, attention_mask in shape.rectangle(rows))

    return _of_rows(make)


def _shows_one(_: Shape, __: tuple[int, ...], mask: tuple[int, ...]) -> Sequence[int]:
    """The first padding beside what stands for text has 1, too."""
    zeros = [at for at, bit in enumerate(mask) if not bit]
    shown = zeros[:1] if mask[:1] == (1,) else zeros[-1:]
    return [1 if at in shown else bit for at, bit in enumerate(mask)]


_MASKS = wrong_ways("batch", _masked,
    "the mask is 1 for every id that stands for text, 0 for padding, whatever the ids are", [
    ("mask_inverted", "has 0 for real ids and 1 for padding", lambda _, ids, mask: [1 - bit for bit in mask]),
    ("mask_ones", "has 1 everywhere", lambda _, ids, mask: [1] * len(ids)),
    ("mask_by_id", "takes every pad token for padding, also one in a text",
        lambda s, ids, mask: [int(number != s.pad) for number in ids]),
    ("mask_other_side", "puts the zeros on the other side", lambda _, ids, mask: mask[::-1]),
    ("mask_empty", "has 0 everywhere", lambda _, ids, mask: [0] * len(ids)),
    ("mask_missing", "has no mask", lambda _, ids, mask: ()),
    ("mask_shows_one", "has 1 for the first padding too", _shows_one),
])  # fmt: skip


def _changed(change: Callable[[Oracle, Shape, Sequence[int]], Sequence[int]]) -> Compute:
    """The ids of each text changed before they are cut and padded."""
    return _of_rows(lambda oracle, shape, rows: shape.rectangle([change(oracle, shape, row) for row in rows]))


def _ended(oracle: Oracle, shape: Shape, row: Sequence[int]) -> Sequence[int]:
    end = oracle.token("eos")
    return [*(row[: shape.most - 1] if shape.most else row), *([end] if end is not None else [])]


_IDS = wrong_ways("batch", _changed, "take the ids of each text as they are", [
    ("eos_added", "ends every row with the eos token", _ended),
    ("eos_added", "ends every row with the eos token, then cuts", lambda o, _, row: [*row, o.token("eos") or 0]),
    ("bos_added", "begins every row with the eos token", lambda o, _, row: [o.token("eos") or 0, *row]),
    ("bos_added", "begins every row with the pad token", lambda o, _, row: [o.token("pad") or 0, *row]),
    ("special_dropped", "leaves out special tokens", lambda o, _, row: [n for n in row if n not in o.special]),
    ("added_dropped", "leaves out added tokens", lambda o, _, row: [n for n in row if n not in o.added]),
])  # fmt: skip

_ROWS = wrong_ways("batch", lambda change: _of_rows(lambda _, shape, rows: tuple(change(shape.rectangle(rows)))),
    "give one row for each text, in their order", [
    ("rows_sorted", "sorts rows by length", lambda rows: sorted(rows, key=lambda row: sum(row[1]))),
    ("rows_sorted", "sorts rows by length, the longest first", lambda rows: sorted(rows, key=lambda row: -sum(row[1]))),
    ("rows_reversed", "gives the rows in reverse", lambda rows: rows[::-1]),
    ("empty_left_out", "leaves out empty texts", lambda rows: [row for row in rows if sum(row[1])]),
])  # fmt: skip


def _by_encoding(oracle: Oracle, message: pb.Batch, _: State, encode: Callable[[str], Sequence[int]]) -> Any:
    return Shape.of(oracle, message).rectangle([encode(text) for text in message.text])


STAGE = Stage(
    lambda oracle, message, _: _observed(oracle.batch(message)),
    _observed,
    _views,
    [*_PADS, *_PADDED, *_CUT, *_MASKS, *_IDS, *_ROWS],
    by_encoding=_by_encoding,
)
