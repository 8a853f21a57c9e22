"""The stage `rendered`: a conversation as the chat template writes it. Its value: the text."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Compute, Stage, State, directly, wrong_ways
from qwen3_parity.text.view import escaped, view

Message = dict[str, Any]
Messages = list[Message]
_END, _PROMPT = "<|im_end|>", "<|im_start|>assistant\n"
_NO_THOUGHT = "<think>\n\n</think>\n\n"
_HELPFUL = "You are a helpful assistant."
_dumped = partial(json.dumps, ensure_ascii=False)
_BLOCK = re.compile(r"<think>\n.*?\n</think>\n\n", re.DOTALL)


def _truth(oracle: Oracle, message: pb.Conversation, _: State) -> str:
    return oracle.conversation(message).rendered


def _with(**changes: Callable[[pb.Conversation], Any]) -> Compute:
    """Hugging Face's template on other switches, or other messages."""

    def compute(oracle: Oracle, message: pb.Conversation, state: State) -> Any:
        changed = pb.Conversation(messages=message.messages, tools=message.tools)
        changed.add_generation_prompt, changed.thinking = message.add_generation_prompt, message.thinking
        for name, value in changes.items():
            setattr(changed, name, value(message))
        return _truth(oracle, changed, state)

    return compute


def _messages(change: Callable[[Messages], Messages]) -> Compute:
    """What the template makes of changed messages."""
    return _with(messages=lambda message: _dumped(change(json.loads(message.messages))))


def _content(change: Callable[[str], str], *roles: str) -> Compute:
    """The contents of the messages changed."""

    def changed(message: Message) -> Message:
        content = message.get("content")
        applies = not roles or message.get("role") in roles
        return message | {"content": change(content)} if applies and isinstance(content, str) else message

    return _messages(lambda messages: [changed(message) for message in messages])


def _text(change: Callable[[str], str]) -> Compute:
    """The rendered text changed."""
    return lambda oracle, message, state: change(_truth(oracle, message, state))


def _prompt(change: Callable[[str, int], str]) -> Compute:
    """From the rendered text and the switch of thinking, where a generation prompt is asked for."""

    def compute(oracle: Oracle, message: pb.Conversation, state: State) -> Any:
        text = _truth(oracle, message, state)
        return change(text, message.thinking) if message.add_generation_prompt else text

    return compute


def _no_thought_as(new: str) -> Compute:
    return _prompt(lambda t, _: t.removesuffix(_NO_THOUGHT) + new if t.endswith(_NO_THOUGHT) else t)


_OFF, _ON = pb.THINKING_OFF, pb.THINKING_ON

_SWITCHES = wrong_ways("rendered", directly,
    "pass enable_thinking on as it is given: absent is neither true nor false; only false adds to the prompt", [
    ("thinking_flag_ignored", "does not pass enable_thinking on", _with(thinking=lambda m: pb.THINKING_ABSENT)),
    ("absent_is_off", "takes an absent enable_thinking for false", _with(thinking=lambda m: m.thinking or _OFF)),
    ("thinking_inverted", "takes enable_thinking for its contrary",
        _with(thinking=lambda m: {_ON: _OFF, _OFF: _ON}.get(m.thinking, m.thinking))),
    ("thinking_off", "takes enable_thinking for false", _with(thinking=lambda m: _OFF)),
    ("on_is_off", "takes enable_thinking for false where it is given",
        _with(thinking=lambda m: _OFF if m.thinking else m.thinking)),
    ("think_opened", "opens a think block behind the generation prompt",
        _prompt(lambda t, thinking: t if thinking == _OFF else f"{t}<think>\n")),
    ("think_opened", "opens a think block where thinking is on",
        _prompt(lambda t, thinking: f"{t}<think>\n" if thinking == _ON else t)),
    *(("think_block_trimmed", f"writes the empty think block as {new!r}", _no_thought_as(new))
      for new in ("<think>\n\n</think>", "<think>\n\n</think>\n", "<think>\n</think>\n\n", "<think></think>\n\n",
                  "<think></think>", "<think>\n</think>\n", "</think>\n\n", "<think>\n\n")),
])  # fmt: skip


def _system_in_front(words: str) -> Compute:
    def change(messages: Messages) -> Messages:
        has = bool(messages) and messages[0].get("role") == "system"
        return messages if has else [{"role": "system", "content": words}, *messages]

    return _messages(change)


def _chatml(end: str) -> Compute:
    """ChatML of roles and contents, nothing else."""

    def compute(_: Oracle, message: pb.Conversation, __: State) -> Any:
        messages = json.loads(message.messages)
        turns = [f"<|im_start|>{turn.get('role')}\n{turn.get('content') or ''}{end}" for turn in messages]
        return "".join(turns) + (_PROMPT if message.add_generation_prompt else "")

    return compute


def _tool_turns(text: str) -> str:
    inside = "\n</tool_response>\n<tool_response>\n"
    return text.replace(inside, f"\n</tool_response>{_END}\n<|im_start|>user\n<tool_response>\n")


def _tool_role(text: str) -> str:
    answer = re.compile(r"<\|im_start\|>user\n<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)
    return answer.sub(r"<|im_start|>tool\n\1", _tool_turns(text))


def _system(message: Message) -> bool:
    return message.get("role") == "system"


def _without(key: str) -> Compute:
    return _messages(lambda messages: [{k: v for k, v in m.items() if k != key} for m in messages])


_TURNS = wrong_ways("rendered", directly,
    "run the tokenizer's own chat template (Jinja, trim_blocks, lstrip_blocks) on the messages as they are", [
    ("no_generation_prompt", "ignores add_generation_prompt", _with(add_generation_prompt=lambda m: False)),
    ("generation_prompt_always", "always adds the generation prompt", _with(add_generation_prompt=lambda m: True)),
    ("generation_prompt_inverted", "takes add_generation_prompt for its contrary",
        _with(add_generation_prompt=lambda m: not m.add_generation_prompt)),
    ("generation_prompt_stripped", "ends the prompt without its newline", _prompt(lambda t, _: t.removesuffix("\n"))),
    ("tools_ignored", "does not pass tools to the template", _with(tools=lambda m: "")),
    ("plain_chatml", "writes roles and contents as ChatML, without the template", _chatml(f"{_END}\n")),
    ("plain_chatml", "writes roles and contents as ChatML, without a newline between turns", _chatml(_END)),
    ("default_system", "puts a system turn in front where there is none", _system_in_front(_HELPFUL)),
    ("default_system", "puts Qwen2.5's system turn in front",
        _system_in_front(f"You are Qwen, created by Alibaba Cloud. {_HELPFUL}")),
    ("default_system", "puts an empty system turn in front", _system_in_front("")),
    ("system_dropped", "drops system turns", _messages(lambda ms: [m for m in ms if not _system(m)])),
    ("system_dropped", "drops a system turn in front", _messages(lambda ms: ms[any(map(_system, ms[:1])) :])),
    ("late_system_dropped", "drops system turns but in front",
        _messages(lambda ms: [*ms[:1], *(m for m in ms[1:] if not _system(m))])),
    ("system_first", "moves system turns to front", _messages(lambda ms: sorted(ms, key=lambda m: not _system(m)))),
    ("last_message_only", "renders the last message alone", _messages(lambda ms: ms[-1:])),
    ("contents_stripped", "strips white space off contents", _content(str.strip)),
    ("contents_stripped", "strips white space off the contents of users", _content(str.strip, "user")),
    ("contents_stripped", "strips white space off the contents of assistants", _content(str.strip, "assistant")),
    ("contents_stripped", "strips white space behind contents", _content(str.rstrip)),
    ("contents_stripped", "strips white space before contents", _content(str.lstrip)),
    ("html_escaped", "escapes contents as HTML", _content(html.escape)),
    ("html_escaped", "escapes contents as HTML, but quotes", _content(lambda c: html.escape(c, quote=False))),
    ("html_escaped", "escapes contents as HTML (autoescape)",
        _content(lambda c: html.escape(c).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"))),
    ("special_removed", "removes special names from contents", _content(lambda c: re.sub(r"<\|[a-z_]+\|>", "", c))),
    ("calls_ignored", "drops tool calls", _without("tool_calls")),
    ("tool_turns_apart", "gives each tool's answer a turn of its own", _text(_tool_turns)),
    ("tool_role", "gives tools' answers a turn of the role tool", _text(_tool_role)),
    ("no_newline", "writes no newline behind turns", _text(lambda t: t.replace(f"{_END}\n", _END))),
    ("no_newline", "writes no newline at the end", _text(lambda t: t.removesuffix("\n"))),
    ("stripped", "strips the rendered text", _text(str.strip)),
    ("stripped", "strips white space behind the rendered text", _text(str.rstrip)),
    ("space_behind_role", "writes a space for the newline behind the role",
        _text(lambda t: re.sub(r"(<\|im_start\|>\w+)\n", r"\1 ", t))),
    *(("newline_behind_role", f"writes {newlines} behind the role",
        _text(partial(re.sub, r"(<\|im_start\|>\w+)\n", rf"\1{new}")))
      for newlines, new in (("no newline", ""), ("two newlines", r"\n\n"), ("CR and newline", r"\r\n"))),
    ("blocks_untrimmed", "begins with a newline, as Jinja without trim_blocks does", _text(lambda t: f"\n{t}")),
    ("newline_at_the_end", "ends with a newline more", _text(lambda t: f"{t}\n")),
    ("bos_added", "begins with <|endoftext|>", _text(lambda t: f"<|endoftext|>{t}")),
    ("eos_added", "ends with <|endoftext|>", _text(lambda t: f"{t}<|endoftext|>")),
    ("eos_added", "ends with <|im_end|>", _text(lambda t: f"{t}{_END}")),
    ("end_missing", "leaves the last turn open", _text(lambda t: t.removesuffix(f"{_END}\n"))),
])  # fmt: skip


def _thoughts(write: Callable[[str, str, str], str], drop_block: bool = True) -> Compute:
    """Assistants' turns by `write(thought, answer, content)`, in the place of (`drop_block`) an empty think block."""

    def compute(oracle: Oracle, message: pb.Conversation, state: State) -> Any:
        messages, written = json.loads(message.messages), list[str]()
        for turn in messages:
            content = turn.get("content")
            if turn.get("role") != "assistant" or not isinstance(content, str):
                continue
            thought, answer = turn.pop("reasoning_content", ""), content
            if not thought and "</think>" in content:
                thought, answer = content.split("</think>")[0].split("<think>")[-1], content.split("</think>")[-1]
            written.append(write(thought.strip("\n"), answer.lstrip("\n") if thought else answer, content))
            turn["content"] = f"\ue000{len(written) - 1}\ue001"
        text = _with(messages=lambda _: _dumped(messages))(oracle, message, state)
        block = f"(?:{re.escape(_NO_THOUGHT)})?" if drop_block else ""
        return re.sub(block + "\ue000(\\d+)\ue001", lambda match: written[int(match[1])], text)

    return compute


def _block(thought: str, answer: str) -> str:
    return f"<think>\n{thought}\n</think>\n\n{answer}"


def _raw(thought: str, answer: str, content: str) -> str:
    return content if "</think>" in content or not thought else _block(thought, answer.lstrip("\n"))


def _thoughtless(message: Message) -> Message:
    rest = {key: value for key, value in message.items() if key != "reasoning_content"}
    if message.get("role") != "assistant" or not isinstance(message.get("content"), str):
        return message
    return rest | {"content": message["content"].rpartition("</think>")[2].lstrip("\n")}


def _as_last(oracle: Oracle, message: pb.Conversation, state: State) -> str:
    messages, out = json.loads(message.messages), ""
    for count in range(1, len(messages) + 1):
        beginning = pb.Conversation(messages=_dumped(messages[:count]), tools=message.tools)
        text = _truth(oracle, beginning, state)
        out = text if count == 1 else out + re.split(r"(?=<\|im_start\|>)", text)[-1]
    whole = _truth(oracle, message, state)
    return out + (whole[whole.rindex(_PROMPT) :] if message.add_generation_prompt else "")


def _put(old: str, new: str) -> Compute:
    return _text(lambda text: text.replace(old, new))


_THOUGHTS = wrong_ways("rendered", directly,
    "keep thoughts only behind the last question of a user, drop them in earlier turns", [
    ("thoughts_kept", "keeps the thoughts of every turn",
        _thoughts(lambda thought, answer, _: _block(thought, answer) if thought else answer)),
    ("thoughts_kept", "writes a think block into every turn, empty ones too",
        _thoughts(lambda thought, answer, _: _block(thought, answer))),
    ("thoughts_kept", "keeps thoughts in contents, and puts the last turn's empty think block before them",
        _thoughts(_raw, drop_block=False)),
    ("thoughts_dropped", "drops thoughts before the template sees them",
        _messages(lambda messages: [_thoughtless(message) for message in messages])),
    ("think_block_trimmed", "writes empty think blocks without their empty lines",
        _put(_NO_THOUGHT, "<think></think>"), _put(_NO_THOUGHT, "<think></think>\n\n")),
    ("thoughts_raw", "writes assistants' contents as they are", _thoughts(lambda thought, answer, content: content)),
    ("thoughts_dropped", "drops the thoughts of every turn", _thoughts(lambda thought, answer, _: answer)),
    ("thoughts_dropped", "empties the think blocks", _text(lambda t: _BLOCK.sub(_NO_THOUGHT, t))),
    ("thoughts_dropped", "drops think blocks", _text(lambda t: _BLOCK.sub("", t))),
    ("empty_thoughts_dropped", "drops empty think blocks", _put(_NO_THOUGHT, "")),
    ("think_block_trimmed", "writes one newline behind think blocks", _put("</think>\n\n", "</think>\n")),
    ("think_block_trimmed", "writes no newlines behind think blocks", _put("</think>\n\n", "</think>")),
    ("think_block_trimmed", "writes no newlines inside think blocks",
        _text(lambda t: t.replace("<think>\n", "<think>").replace("\n</think>", "</think>"))),
    ("think_block_trimmed", "writes one newline in empty blocks", _put("<think>\n\n</think>", "<think>\n</think>")),
    ("reasoning_content_ignored", "does not know reasoning_content", _without("reasoning_content")),
    ("rendered_one_by_one", "renders assistants' turns as if each were the last", _as_last),
])  # fmt: skip


def _json(dump: Callable[[Any], str], tools: bool, arguments: bool) -> Compute:
    """Tools and arguments written in another way."""

    def compute(oracle: Oracle, message: pb.Conversation, state: State) -> Any:
        text = _truth(oracle, message, state)
        values: list[Any] = json.loads(message.tools) if message.tools and tools else []
        for turn in json.loads(message.messages) if arguments else []:
            calls = [call.get("function", call) for call in turn.get("tool_calls") or []]
            values += [call["arguments"] for call in calls if not isinstance(call["arguments"], str)]
        for value in sorted(values, key=lambda value: -len(json.dumps(value))):
            text = text.replace(_dumped(value), dump(value))
        return text

    return compute


def _for_html(text: str) -> str:
    return text.translate({ord(character): f"\\u{ord(character):04x}" for character in "<>&'"})


_DUMPS: Sequence[tuple[str, str, Callable[[Any], str]]] = [
    ("jinja_tojson", "writes JSON by Jinja: sorted, escaped", lambda v: _for_html(json.dumps(v, sort_keys=True))),
    ("jinja_tojson", "writes JSON by Jinja: sorted, escaped, not in ASCII",
        lambda v: _for_html(_dumped(v, sort_keys=True))),
    ("html_escaped", "writes JSON escaped for HTML", lambda v: _for_html(_dumped(v))),
    ("html_escaped", "writes JSON escaped for HTML, in ASCII", lambda v: _for_html(json.dumps(v))),
    ("json_ascii", "writes JSON in ASCII alone", json.dumps),
    ("json_sorted", "sorts the keys of JSON", lambda v: _dumped(v, sort_keys=True)),
    ("json_sorted", "sorts the keys of JSON, in ASCII", lambda v: json.dumps(v, sort_keys=True)),
    ("json_compact", "writes JSON without spaces", lambda v: _dumped(v, separators=(",", ":"))),
    ("json_compact", "writes JSON without spaces, in ASCII", lambda v: json.dumps(v, separators=(",", ":"))),
    ("json_indented", "writes JSON over several lines", lambda v: _dumped(v, indent=2)),
    ("json_indented", "writes JSON over several lines", lambda v: _dumped(v, indent=4)),
    ("python_repr", "writes Python's str instead of JSON", str),
    ("slashes_escaped", "writes / as \\/", lambda v: _dumped(v).replace("/", "\\/")),
    ("arguments_quoted", "writes JSON as a string in JSON", lambda v: _dumped(_dumped(v))),
    ("arguments_quoted", "writes JSON as a string in JSON, in ASCII", lambda v: json.dumps(json.dumps(v))),
]  # fmt: skip


_WHERE = (("", True, True), (", in tools alone", True, False), (", in arguments alone", False, True))
_JSON = wrong_ways(
    "rendered", directly,
    'write tools and arguments as json.dumps(…, ensure_ascii=False) does: in the given order, with ", " and ": "',
    [(name, says + where, _json(dump, *parts)) for name, says, dump in _DUMPS for where, *parts in _WHERE],
)  # fmt: skip

STAGE = Stage(
    _truth,
    lambda message: message.rendered,
    lambda message: view("rendered characters", message.rendered, escaped, ""),
    [*_SWITCHES, *_TURNS, *_THOUGHTS, *_JSON],
)
