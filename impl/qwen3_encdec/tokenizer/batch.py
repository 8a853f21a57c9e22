"""Texts to one rectangle of ids: encoded, cut off, then padded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import TokenizerError


@dataclass(frozen=True, slots=True)
class Batch:
    """`input_ids` and `attention_mask`, both [row, position]; the mask is 1 for an id of the text, 0 for padding."""

    input_ids: list[list[int]]
    attention_mask: list[list[int]]


def encoded(texts: Sequence[str], encode: Callable[[str], list[int]]) -> list[list[int]]:
    """The ids of each text; the error for a text that cannot be encoded says which one it is."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise TokenizerError(
            "texts",
            "a batch is made of several texts",
            expected="a list of str",
            got=type(texts).__name__,
            next_step="put the text into a list",
        )
    rows = []
    for number, text in enumerate(texts):
        try:
            rows.append(encode(text))
        except TokenizerError as error:
            raise TokenizerError(
                f"texts[{number}]: {error.where}",
                error.rule,
                expected=error.expected,
                got=error.got,
                next_step=error.next_step,
            ) from None
    return rows


def rectangle(
    rows: Sequence[Sequence[int]],
    pad_id: int,
    *,
    padding_side: str,
    truncation_side: str,
    max_length: int = 0,
    pad_to_multiple_of: int = 0,
) -> Batch:
    """Cut each row to `max_length` ids (0: to none) and pad all to the longest, rounded up to a multiple (0: of 1).

    `max_length` need not be such a multiple: rows of 5 ids are padded to 8 where it is one of 4. The sides are where
    ids are cut off and where padding is put. Bad settings raise `TokenizerError`.
    """
    for name, side in (("padding_side", padding_side), ("truncation_side", truncation_side)):
        if side not in ("left", "right"):
            raise _refused(f"{name} names a side", expected='"left" or "right"', got=repr(side))
    for name, number in (("max_length", max_length), ("pad_to_multiple_of", pad_to_multiple_of)):
        if not isinstance(number, int) or number < 0:
            raise _refused(f"{name} is a count; 0 leaves it out", expected="0 or more", got=repr(number))
    if max_length:
        rows = [row[:max_length] if truncation_side == "right" else row[-max_length:] for row in rows]
    length = max(map(len, rows), default=0)
    if pad_to_multiple_of:
        length += -length % pad_to_multiple_of
    batch = Batch([], [])
    for row in rows:
        padding = length - len(row)
        ids, mask = list(row), [1] * len(row)
        pads, hidden = [pad_id] * padding, [0] * padding
        batch.input_ids.append(pads + ids if padding_side == "left" else ids + pads)
        batch.attention_mask.append(hidden + mask if padding_side == "left" else mask + hidden)
    return batch


def _refused(rule: str, *, expected: str, got: str) -> TokenizerError:
    return TokenizerError("batch", rule, expected=expected, got=got, next_step="change the argument")
