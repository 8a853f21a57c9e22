"""Wrong ways to write JSON into a rendered conversation, and to encode what was rendered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_reference.tokenization.chat import conversation


def _json(dump: Callable[[Any], str], tools: bool = True, arguments: bool = True) -> Compute:
    """Tools and arguments written in another way."""

    def compute(oracle: Oracle, given: pb.Conversation, _: State) -> Any:
        text = conversation(oracle.reference, given).rendered
        values: list[Any] = json.loads(given.tools) if given.tools and tools else []
        for message in json.loads(given.messages) if arguments else []:
            calls = [call.get("function", call) for call in message.get("tool_calls") or []]
            values += [call["arguments"] for call in calls if not isinstance(call["arguments"], str)]
        for value in sorted(values, key=lambda one: -len(json.dumps(one))):
            text = text.replace(json.dumps(value, ensure_ascii=False), dump(value))
        return text

    return compute


def _jinja(value: Any) -> str:
    return _for_html(json.dumps(value, sort_keys=True))


def _for_html(text: str) -> str:
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


_JSON = wrong_ways(
    "rendered",
    "write tools and arguments as json.dumps(…, ensure_ascii=False) does: in the given order, with \", \" and \": \"",
    [
        *(
            (name, f"{says}{where}", _json(dump, **which))
            for name, says, dump in (
                ("jinja_tojson", "writes JSON by Jinja's own tojson: sorted, escaped", _jinja),
                ("jinja_tojson", "writes JSON by Jinja's own tojson: sorted, escaped for HTML, not in ASCII",
                    lambda v: _for_html(json.dumps(v, sort_keys=True, ensure_ascii=False))),
                ("html_escaped", "writes JSON escaped for HTML",
                    lambda v: _for_html(json.dumps(v, ensure_ascii=False))),
                ("html_escaped", "writes JSON escaped for HTML, in ASCII", lambda v: _for_html(json.dumps(v))),
                ("json_ascii", "writes JSON in ASCII alone", json.dumps),
                ("json_sorted", "sorts the keys of JSON", lambda v: json.dumps(v, ensure_ascii=False, sort_keys=True)),
                ("json_sorted", "sorts the keys of JSON, in ASCII", lambda v: json.dumps(v, sort_keys=True)),
                ("json_compact", "writes JSON without spaces",
                    lambda v: json.dumps(v, ensure_ascii=False, separators=(",", ":"))),
                ("json_compact", "writes JSON without spaces, in ASCII",
                    lambda v: json.dumps(v, separators=(",", ":"))),
                ("json_indented", "writes JSON over several lines",
                    lambda v: json.dumps(v, ensure_ascii=False, indent=2)),
                ("json_indented", "writes JSON over several lines",
                    lambda v: json.dumps(v, ensure_ascii=False, indent=4)),
                ("python_repr", "writes Python's str instead of JSON", str),
                ("slashes_escaped", "writes / as \\/", lambda v: json.dumps(v, ensure_ascii=False).replace("/", "\\/")),
                ("arguments_quoted", "writes JSON as a string in JSON",
                    lambda v: json.dumps(json.dumps(v, ensure_ascii=False), ensure_ascii=False)),
                ("arguments_quoted", "writes JSON as a string in JSON, in ASCII", lambda v: json.dumps(json.dumps(v))),
            )
            for where, which in (
                ("", {}), (", in tools alone", {"arguments": False}), (", in arguments alone", {"tools": False})
            )
        ),
    ],
)  # fmt: skip


def _encoded(pieces: Callable[[str, pb.Conversation], list[tuple[str, bool]]]) -> Compute:
    """Pieces of the rendered text encoded each for itself, special tokens found or not, and put together."""

    def compute(oracle: Oracle, given: pb.Conversation, state: State) -> Any:
        out: list[int] = []
        for text, split in pieces(state["rendered"], given):
            found = oracle.reference.tokenizer(text, add_special_tokens=False, split_special_tokens=split)
            out += found["input_ids"]
        return tuple(out)

    return compute


def _contents(text: str, given: pb.Conversation) -> list[tuple[str, bool]]:
    messages = json.loads(given.messages)
    contents = {one.get("content") for one in messages if one.get("role") in ("user", "system", "tool")}
    names = sorted((one for one in contents if isinstance(one, str) and one), key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    return [(part, number % 2 == 1) for number, part in enumerate(parts) if part]


_IDS = wrong_ways(
    "rendered_ids",
    "encode the rendered text as a whole, special tokens found, nothing added or taken away",
    [
        ("special_as_text", "takes the names of special tokens for plain text", _encoded(lambda t, g: [(t, True)])),
        ("contents_as_text", "takes the names of special tokens in contents for plain text", _encoded(_contents)),
        ("stripped", "encodes the rendered text stripped", _encoded(lambda t, g: [(t.strip(), False)])),
        ("stripped", "encodes the rendered text stripped at its end", _encoded(lambda t, g: [(t.rstrip(), False)])),
        ("lines", "encodes line by line",
            _encoded(lambda t, g: [(line, False) for line in t.splitlines(keepends=True)])),
        ("lines", "encodes line by line, without the ends of lines",
            _encoded(lambda t, g: [(line, False) for line in t.splitlines()])),
        ("lines", "encodes line by line, newlines apart",
            _encoded(lambda t, g: [(line, False) for line in re.split("(\n)", t)])),
        ("prefix_space", "encodes a space in front", _encoded(lambda t, g: [(f" {t}", False)])),
    ],
)  # fmt: skip

WRONG: list[Wrong] = [*_JSON, *_IDS]
"""Of the stages `rendered` and `rendered_ids`."""
