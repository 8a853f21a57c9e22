"""What a stage holds, as a row of items that are compared one by one and shown to a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

_MOST, _LETTERS, _ITEMS = 64, 24, 4
"""Characters of a text that are shown whole; what is shown on each side of a difference: characters, other items."""


@dataclass(frozen=True)
class View:
    """`items` are compared one by one; `show(index)` is what a person sees of one, joined by `glue`.

    `places`: the character of the given text at which each item begins, where that is known.
    """

    items: Sequence[object]
    show: Callable[[int], str]
    glue: str = ", "
    places: Sequence[int] = field(default=())


Views = Mapping[str, View]
"""By what they hold, as a message names it."""

Difference = tuple[str, str, str]
"""Rule, expected and got."""


def view(label: str, items: Sequence[Any], show: Callable[[Any], str] = str, glue: str = ", ") -> Views:
    """One row whose items are shown by themselves."""
    return {label: View(items, lambda at: show(items[at]), glue)}


def escaped(text: str) -> str:
    """The text with everything but ASCII, control characters included, as escapes; without quotes."""
    return ascii(text)[1:-1]


def shortened(text: str) -> str:
    """The text, or its beginning and end where it is long."""
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]}…{text[-_MOST // 2 :]}"


def printable(text: str) -> str:
    """The text with what no screen shows as escapes."""
    return "".join(letter if letter.isprintable() else escaped(letter) for letter in text)


def span(text: str, begin: int, end: int) -> str:
    """A stretch of a text, with its ends."""
    return f"{begin}–{end} '{shortened(escaped(text[begin:end]))}'"


def around(view: View, at: int) -> str:
    """The items around one."""
    width = _ITEMS if view.glue else _LETTERS
    begin, end = max(at - width, 0), min(at + width + 1, len(view.items))
    shown = view.glue.join(map(view.show, range(begin, end)))
    if not shown and at >= len(view.items):
        return "nothing"
    return f"{'…' * (begin > 0)}{shown}{'…' * (end < len(view.items))}"


def compared(expected: Views, actual: Views, text: str = "") -> tuple[int, int, Difference | None]:
    """How many items there are and how many differ; the first that does, with what stands around it on both sides."""
    empty, nothing = View((), str), object()
    count, differing, first = 0, 0, None
    for label in dict.fromkeys([*expected, *actual]):
        theirs, ours = expected.get(label, empty), actual.get(label, empty)
        count += max(len(theirs.items), len(ours.items))
        pairs = zip_longest(theirs.items, ours.items, fillvalue=nothing)
        wrong = [at for at, (a, b) in enumerate(pairs) if a != b]
        differing += len(wrong)
        if wrong and first is None:
            first = _difference(label, theirs, ours, wrong[0], text)
    return max(count, 1), differing, first  # the empty text's nothing is one item


def _difference(label: str, expected: View, actual: View, at: int, text: str) -> Difference:
    rule = f"other {label}, first at {at} of {len(expected.items)}"
    if text and expected.places:
        place = expected.places[min(at, len(expected.places) - 1)]
        rule += f", in the text '{escaped(text[max(place - _LETTERS, 0) : place])}▸{escaped(text[place:][:_LETTERS])}'"
    expected_text, actual_text = around(expected, at), around(actual, at)
    if expected_text == actual_text:
        expected_text, actual_text = f"{expected_text}  {_item(expected, at)}", f"{actual_text}  {_item(actual, at)}"
    return rule, expected_text, actual_text


def _item(view: View, at: int) -> object:
    return view.items[at] if at < len(view.items) else "nothing"
