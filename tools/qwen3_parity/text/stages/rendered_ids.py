"""The stage `rendered_ids`: a rendered conversation encoded. Its value: the ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, wrong_ways
from qwen3_parity.text.view import view

Parts = list[tuple[str, bool]]
"""Parts of a text, and whether special tokens in them are plain text."""


def _encoded(parts: Callable[[str, pb.Conversation], Parts]) -> Compute:
    """Parts of the rendered text encoded each for itself, and put together."""

    def compute(oracle: Oracle, message: pb.Conversation, state: State) -> Any:
        return tuple(n for text, split in parts(state["rendered"], message) for n in oracle.encoded(text, split))

    return compute


def _text(change: Callable[[str], str]) -> Compute:
    return _encoded(lambda text, _: [(change(text), False)])


def _lines(split: Callable[[str], Sequence[str | Any]]) -> Compute:
    return _encoded(lambda text, _: [(line, False) for line in split(text)])


def _contents(text: str, message: pb.Conversation) -> Parts:
    turns = json.loads(message.messages)
    contents = {turn.get("content") for turn in turns if turn.get("role") in ("user", "system", "tool")}
    names = sorted(
        (content for content in contents if isinstance(content, str) and content),
        key=lambda content: (-len(content), content),
    )
    parts = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    return [(part, number % 2 == 1) for number, part in enumerate(parts) if part]


_WRONG = wrong_ways("rendered_ids", lambda compute: compute,
    "encode the rendered text as a whole, special tokens found, nothing added or taken away", [
    ("special_as_text", "takes the names of special tokens for plain text", _encoded(lambda text, _: [(text, True)])),
    ("contents_as_text", "takes the names of special tokens in contents for plain text", _encoded(_contents)),
    ("stripped", "encodes the rendered text stripped", _text(str.strip)),
    ("stripped", "encodes the rendered text stripped at its end", _text(str.rstrip)),
    ("lines", "encodes line by line", _lines(lambda text: text.splitlines(keepends=True))),
    ("lines", "encodes line by line, without the ends of lines", _lines(str.splitlines)),
    ("lines", "encodes line by line, newlines apart", _lines(lambda text: re.split("(\n)", text))),
    ("prefix_space", "encodes a space in front", _text(lambda text: f" {text}")),
])  # fmt: skip


def _by_encoding(_: Oracle, message: pb.Conversation, state: State, encode: Callable[[str], Sequence[int]]) -> Any:
    return tuple(encode(state.get("rendered") or message.rendered))


STAGE = Stage(
    _text(str),
    lambda message: tuple(message.id),
    lambda message: view("ids", list(message.id)),
    _WRONG,
    by_encoding=_by_encoding,
)
