"""Bugs around chat templates and batches: arguments that are not passed on, another Jinja, rendered text encoded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from detection.mutants.text.seeds import Seed, around, swap, wrong
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

Messages = Sequence[Mapping[str, Any]]
HIDDEN = "\ue123"


def _asks(name: str, **changed: Any) -> Seed:
    """A method is called with other keywords, whatever is asked."""
    return around(name, lambda plain, first, **asked: plain(first, **asked | changed))


def _thoughtful(plain: Callable[..., str], messages: Messages, **asked: Any) -> str:
    """The template does not see that an assistant's words hold thoughts, and leaves them in."""

    def hide(message: Mapping[str, Any]) -> dict[str, Any]:
        rest = {key: value for key, value in message.items() if key != "reasoning_content"}
        if message["role"] != "assistant" or not isinstance(message.get("content"), str):
            return dict(message)
        text = message["content"]
        if "reasoning_content" in message:
            text = f"<think>\n{message['reasoning_content'].strip(chr(10))}\n</think>\n\n" + text.lstrip("\n")
        return rest | {"content": text.replace("think>", f"{HIDDEN}>")}

    return plain([hide(message) for message in messages], **asked).replace(f"{HIDDEN}>", "think>")


def _jinja(tojson: Callable[..., str] | None = None, **options: bool) -> Seed:
    """Another environment; a filter of its own for JSON, Jinja's without one."""

    def make(tokenizer: ByteLevelTokenizer) -> Callable[..., str]:
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, **options)  # type: ignore[arg-type]
        if tojson is not None:
            environment.filters["tojson"] = lambda value, **_: tojson(value)
        template = environment.from_string(str(tokenizer.files.chat_template))

        def render(messages: Messages, **asked: Any) -> str:
            if asked.get("enable_thinking") is None:
                asked.pop("enable_thinking", None)
            return template.render(messages=messages, **{"tools": None, "add_generation_prompt": False} | asked)

        return render

    return swap("render", make)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _quoted(plain: Callable[..., str], messages: Messages, **asked: Any) -> str:
    def quote(match: re.Match[str]) -> str:
        return '"arguments": ' + json.dumps(json.dumps(match[1]))

    def change(message: Mapping[str, Any]) -> dict[str, Any]:
        calls = message.get("tool_calls")
        text = re.sub(r'"arguments": (\{[^{}]*\})', quote, _dumps(calls))
        return dict(message) | ({"tool_calls": json.loads(text)} if calls else {})

    return plain([change(message) for message in messages], **asked)


def _line_by_line(plain: Callable[..., list[int]], text: str, **asked: Any) -> list[int]:
    return [token_id for line in text.split("\n") for token_id in plain(line, **asked)]


MUTANTS = (
    wrong("TKS-16/left", "pads on the left, whatever is asked", _asks("batch", padding_side="left"), "batch",
          "batch.padded_left", "batches"),
    wrong("TKS-12", "does not pass on enable_thinking", _asks("render", enable_thinking=None), "rendered",
          "rendered.thinking_flag_ignored", "chat"),
    wrong("TKS-12/kept", "keeps the thoughts of every turn", around("render", _thoughtful), "rendered",
          "rendered.thoughts_kept", "chat"),
    wrong("own/tokenizer-tools-jinja", "Jinja's tojson: sorted, with \\u003c", _jinja(), "rendered",
          "rendered.jinja_tojson", "chat"),
    wrong("own/tokenizer-escaped", "escapes < > & for HTML", _jinja(_dumps, autoescape=True), "rendered",
          "rendered.html_escaped", "chat"),
    wrong("own/tokenizer-call-arguments", "writes a call's arguments as text inside text", around("render", _quoted),
          "rendered", "rendered.arguments_quoted", "chat"),
    wrong("own/tokenizer-chat-plain", "takes the template's special tokens for plain text",
          _asks("encode", split_special_tokens=True), "rendered_ids", "rendered_ids.special_as_text", "chat"),
    wrong("own/tokenizer-chat-joined", "encodes line by line, without the line ends", around("encode", _line_by_line),
          "rendered_ids", "rendered_ids.lines", "chat"),
)  # fmt: skip
