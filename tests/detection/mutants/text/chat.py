"""Bugs in chat templates: switches that are not passed on, messages tidied up, another Jinja; and in the ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from detection.mutants.entry import entry
from detection.mutants.text.seeds import Seed, around, behind, put
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

CHAT = "tokenization/chat"
Messages = Sequence[Mapping[str, Any]]
HIDDEN = "\ue123"


def _asks(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Seed:
    """The keywords of `render` go through `change`."""
    return around("render", lambda plain, messages, **asked: plain(messages, **change(asked)))


def _given(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Seed:
    """The messages go through `change`."""
    return around("render", lambda plain, messages, **asked: plain(change([dict(one) for one in messages]), **asked))


def _each(role: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Seed:
    return _given(lambda messages: [change(one) if one["role"] == role else one for one in messages])


def _text(change: Callable[[str], str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda one: one | {"content": change(one["content"])} if isinstance(one.get("content"), str) else one


def _no_thoughts(one: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in one.items() if key != "reasoning_content"}
    return _text(lambda text: text.rpartition("</think>")[2].lstrip("\n"))(plain)


def _kept(plain: Callable[..., str], messages: Messages, **asked: Any) -> str:
    """The template does not see that an assistant's words hold thoughts, and leaves them in."""

    def hide(one: Mapping[str, Any]) -> dict[str, Any]:
        rest = {key: value for key, value in one.items() if key != "reasoning_content"}
        if one["role"] != "assistant" or not isinstance(one.get("content"), str):
            return dict(one)
        text = one["content"]
        if "reasoning_content" in one:
            text = f"<think>\n{one['reasoning_content'].strip(chr(10))}\n</think>\n\n" + text.lstrip("\n")
        return rest | {"content": text.replace("think>", f"{HIDDEN}>")}

    return plain([hide(one) for one in messages], **asked).replace(f"{HIDDEN}>", "think>")


def _jinja(tojson: Callable[[Any], str] | None = None, **options: bool) -> Seed:
    """Another environment; a filter of its own for JSON, Jinja's without one."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        environment = jinja2.Environment(**{"trim_blocks": True, "lstrip_blocks": True, **options})  # type: ignore[arg-type]
        if tojson is not None:
            environment.filters["tojson"] = lambda value, **_: tojson(value)
        template = environment.from_string(str(tokenizer.files.chat_template))

        def render(messages: Messages, **asked: Any) -> str:
            if asked.get("enable_thinking") is None:
                asked.pop("enable_thinking", None)
            return template.render(messages=messages, **{"tools": None, "add_generation_prompt": False} | asked)

        put("render", render)(tokenizer)

    return seed


def _dumps(value: Any, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False} | options)


def _system_first(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if any(one["role"] == "system" for one in messages):
        return messages
    return [{"role": "system", "content": "You are a helpful assistant."}, *messages]


def _template_of_ids(change: Callable[[str], str]) -> Seed:
    return around("encode", lambda plain, text, **asked: plain(change(text), **asked))


def _wrong(name: str, says: str, seed: Seed, named: str, wrong: str = "rendered") -> Any:
    return entry(name, says, seed, [wrong], named, [CHAT])


MUTANTS = (
    _wrong("TKS-12", "does not pass on enable_thinking", _asks(lambda one: one | {"enable_thinking": None}),
           "rendered.thinking_flag_ignored"),
    _wrong("TKS-12/absent", "enable_thinking is false unless it is given",
           _asks(lambda one: one | {"enable_thinking": bool(one.get("enable_thinking"))}), "rendered.absent_is_off"),
    _wrong(
        "TKS-12/inverted",
        "enable_thinking the other way round",
        _asks(
            lambda one: (
                one if one.get("enable_thinking") is None else one | {"enable_thinking": not one["enable_thinking"]}
            )
        ),
        "rendered.thinking_inverted",
    ),
    _wrong("TKS-12/trimmed", "drops the thoughts of every turn", _each("assistant", _no_thoughts),
           "rendered.thoughts_dropped"),
    _wrong("TKS-12/kept", "keeps the thoughts of every turn", around("render", _kept), "rendered.thoughts_kept"),
    _wrong("TKS-12/block", "leaves out the empty lines of an empty think block",
           behind("render", lambda text: text.replace("<think>\n\n</think>\n\n", "<think></think>")),
           "rendered.think_block_trimmed"),
    _wrong("own/tokenizer-prompt-never", "adds no generation prompt",
           _asks(lambda one: one | {"add_generation_prompt": False}), "rendered.no_generation_prompt"),
    _wrong("own/tokenizer-prompt-always", "always adds a generation prompt",
           _asks(lambda one: one | {"add_generation_prompt": True}), "rendered.generation_prompt_always"),
    _wrong("own/tokenizer-tools-dropped", "does not pass on tools", _asks(lambda one: one | {"tools": None}),
           "rendered.tools_ignored"),
    _wrong("own/tokenizer-tools-jinja", "Jinja's tojson: sorted, with \\u003c", _jinja(), "rendered.jinja_tojson"),
    _wrong("own/tokenizer-tools-ascii", "JSON in ASCII alone", _jinja(json.dumps), "rendered.json_ascii"),
    _wrong("own/tokenizer-tools-sorted", "JSON with sorted keys", _jinja(lambda one: _dumps(one, sort_keys=True)),
           "rendered.json_sorted"),
    _wrong("own/tokenizer-tools-compact", "JSON without spaces", _jinja(lambda one: _dumps(one, separators=(",", ":"))),
           "rendered.json_compact"),
    _wrong("own/tokenizer-escaped", "escapes < > & for HTML", _jinja(_dumps, autoescape=True), "rendered.html_escaped"),
    _wrong("own/tokenizer-contents-stripped", "strips what users say", _each("user", _text(str.strip)),
           "rendered.contents_stripped"),
    _wrong("own/tokenizer-system-added", "adds a system turn where there is none", _given(_system_first),
           "rendered.default_system"),
    _wrong("own/tokenizer-system-dropped", "drops system turns",
           _given(lambda messages: [one for one in messages if one["role"] != "system"] or messages),
           "rendered.system_dropped"),
    _wrong("own/tokenizer-rendered-stripped", "strips the rendered text", behind("render", str.strip),
           "rendered.stripped"),
    _wrong("own/tokenizer-turn-ends", "no line feed behind a turn",
           behind("render", lambda text: text.replace("<|im_end|>\n", "<|im_end|>")), "rendered.no_newline"),
    _wrong("own/tokenizer-call-arguments", "writes a call's arguments as text inside text",
           _given(lambda messages: [_quoted(one) for one in messages]), "rendered.arguments_quoted"),
    _wrong("own/tokenizer-chat-plain", "takes the template's special tokens for plain text",
           around("encode", lambda plain, text, **asked: plain(text, split_special_tokens=True)),
           "rendered_ids.special_as_text", "rendered_ids"),
    _wrong("own/tokenizer-chat-stripped", "encodes the rendered text stripped", _template_of_ids(str.strip),
           "rendered_ids.stripped", "rendered_ids"),
    _wrong(
        "own/tokenizer-chat-joined",
        "encodes line by line, without the line ends",
        around(
            "encode", lambda plain, text, **asked: [one for line in text.split("\n") for one in plain(line, **asked)]
        ),
        "rendered_ids.lines",
        "rendered_ids",
    ),
)  # fmt: skip


def _quoted(one: dict[str, Any]) -> dict[str, Any]:
    calls = one.get("tool_calls")
    if not calls:
        return one
    text = json.loads(
        re.sub(
            r'"arguments": (\{[^{}]*\})',
            lambda match: '"arguments": ' + json.dumps(json.dumps(match[1])),
            _dumps(calls),
        )
    )
    return one | {"tool_calls": text}
