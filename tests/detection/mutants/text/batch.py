"""Bugs in batches: padding, cutting off, the mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.text.seeds import Seed, behind, put
from qwen3_encdec.tokenizer.batch import Batch
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

BATCHES = "tokenization/batches"
Row = list[int]


@dataclass(frozen=True)
class Settings:
    """What a batch is asked for; lengths are 0 where none is asked for."""

    pad: int
    padding_side: str
    truncation_side: str
    max_length: int
    multiple: int


def cut(row: Row, asked: Settings) -> Row:
    """The ids that are kept."""
    if not asked.max_length:
        return row
    return row[: asked.max_length] if asked.truncation_side == "right" else row[-asked.max_length :]


def width(rows: Sequence[Row], asked: Settings) -> int:
    """The length of every row."""
    longest = max(map(len, rows), default=0)
    return -(-longest // asked.multiple) * asked.multiple if asked.multiple else longest


def padded(row: Row, length: int, filler: int, asked: Settings) -> Row:
    """The row with fillers on the padding side."""
    fillers = [filler] * (length - len(row))
    return row + fillers if asked.padding_side == "right" else fillers + row


def masked(row: Row, asked: Settings) -> Row:
    """The mask of a row before it is padded."""
    return [1] * len(row)


def rectangle(
    asking: Callable[[ByteLevelTokenizer, Settings], Settings] = lambda tokenizer, asked: asked,
    cut: Callable[[Row, Settings], Row] = cut,
    width: Callable[[Sequence[Row], Settings], int] = width,
    pad: Callable[[Row, int, int, Settings], Row] = padded,
    mask: Callable[[Row, Settings], Row] = masked,
) -> Seed:
    """Batches with one of their steps replaced."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        def batch(
            texts: Sequence[str],
            *,
            padding_side: str | None = None,
            truncation_side: str | None = None,
            max_length: int = 0,
            pad_to_multiple_of: int = 0,
        ) -> Batch:
            files = tokenizer.files
            sides = padding_side or files.padding_side, truncation_side or files.truncation_side
            pad_id = tokenizer.id_of(str(files.pad_token))
            asked = asking(tokenizer, Settings(pad_id, *sides, max_length, pad_to_multiple_of))
            rows = [cut(tokenizer.encode(text), asked) for text in texts]
            length = max(width(rows, asked), max(map(len, rows), default=0))
            return Batch(
                [pad(row, length, asked.pad, asked) for row in rows],
                [pad(mask(row, asked), length, 0, asked) for row in rows],
            )

        put("batch", batch)(tokenizer)

    return seed


def _asks(**changed: Callable[[ByteLevelTokenizer, Settings], Any]) -> Seed:
    return rectangle(lambda one, asked: replace(asked, **{name: make(one, asked) for name, make in changed.items()}))


def _other(side: str) -> str:
    return "left" if side == "right" else "right"


def _masks(change: Callable[[int, int, int], int]) -> Seed:
    """Each place of the mask from the id, the mask and the pad id."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        pad = tokenizer.id_of(str(tokenizer.files.pad_token))

        def changed(batch: Batch) -> Batch:
            pairs = zip(batch.input_ids, batch.attention_mask, strict=True)
            return replace(
                batch, attention_mask=[[change(*both, pad) for both in zip(*rows, strict=True)] for rows in pairs]
            )

        behind("batch", changed)(tokenizer)

    return seed


def _cut_behind_padding(row: Row, length: int, filler: int, asked: Settings) -> Row:
    return cut(padded(row, length, filler, asked), asked)


def _wrong(name: str, says: str, seed: Seed, named: str) -> Any:
    return entry(name, says, seed, ["batch"], named, [BATCHES])


def _id(name: Callable[[ByteLevelTokenizer], str]) -> Callable[[ByteLevelTokenizer, Settings], int]:
    return lambda one, asked: one.id_of(name(one))


MUTANTS = (
    _wrong("TKS-16", "pads with eos", _asks(pad=_id(lambda one: str(one.files.eos_token))), "batch.pad_is_eos"),
    _wrong("TKS-16/zero", "pads with id 0", _asks(pad=lambda one, asked: 0), "batch.pad_is_zero"),
    _wrong("TKS-16/side", "pads on the other side", _asks(padding_side=lambda one, asked: _other(asked.padding_side)),
           "batch.other_side"),
    _wrong("TKS-16/left", "pads on the left, whatever is asked", _asks(padding_side=lambda *_: "left"),
           "batch.padded_left"),
    _wrong("TKS-16/right", "pads on the right, whatever is asked", _asks(padding_side=lambda *_: "right"),
           "batch.padded_right"),
    _wrong("own/tokenizer-mask-inverted", "the mask is 1 at padding", _masks(lambda id, one, pad: 1 - one),
           "batch.mask_inverted"),
    _wrong("own/tokenizer-mask-ones", "the mask is 1 everywhere", _masks(lambda id, one, pad: 1), "batch.mask_ones"),
    _wrong("own/tokenizer-mask-by-id", "masks a pad token in the text", _masks(lambda id, one, pad: int(id != pad)),
           "batch.mask_by_id"),
    _wrong("own/tokenizer-cut-right", "cuts off on the right, whatever is asked",
           _asks(truncation_side=lambda *_: "right"), "batch.cut_right"),
    _wrong("own/tokenizer-cut-left", "cuts off on the left, whatever is asked",
           _asks(truncation_side=lambda *_: "left"), "batch.cut_left"),
    _wrong("own/tokenizer-cut-at-padding", "cuts off where it pads",
           _asks(truncation_side=lambda one, asked: asked.padding_side), "batch.cut_at_padding_side"),
    _wrong("own/tokenizer-cut-late", "cuts off behind padding",
           rectangle(cut=lambda row, asked: row, pad=_cut_behind_padding), "batch.cut_after_padding"),
    _wrong("own/tokenizer-cut-short", "keeps one id less",
           _asks(max_length=lambda one, asked: max(asked.max_length - 1, 0)), "batch.cut_short"),
    _wrong("own/tokenizer-cut-not", "cuts nothing off", rectangle(cut=lambda row, asked: row), "batch.not_cut"),
    _wrong("own/tokenizer-pad-to-max", "pads to max_length",
           rectangle(width=lambda rows, asked: max(width(rows, asked), asked.max_length)),
           "batch.padded_to_max_length"),
    _wrong("own/tokenizer-multiple-ignored", "pads to no multiple", _asks(multiple=lambda *_: 0),
           "batch.multiple_ignored"),
    _wrong("own/tokenizer-multiple-more", "pads by a whole multiple where none is missing",
           rectangle(width=lambda rows, asked: width(rows, asked) + _more(rows, asked)), "batch.multiple_too_many"),
)  # fmt: skip


def _more(rows: Sequence[Row], asked: Settings) -> int:
    return asked.multiple if asked.multiple and max(map(len, rows), default=0) % asked.multiple == 0 else 0
