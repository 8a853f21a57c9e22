"""Wrong ways to render a conversation, and to encode what was rendered."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_reference.tokenization.chat import conversation

Message = dict[str, Any]
_END = "<|im_end|>"
PROMPT = "<|im_start|>assistant\n"
EMPTY_THOUGHT = "<think>\n\n</think>\n\n"
_HELPFUL = "You are a helpful assistant."


def given_with(**changes: Any) -> Compute:
    """Hugging Face's template on other switches."""

    def compute(oracle: Oracle, given: pb.Conversation, _: State) -> Any:
        other = pb.Conversation(messages=given.messages, tools=given.tools)
        other.add_generation_prompt, other.thinking = given.add_generation_prompt, given.thinking
        for name, value in changes.items():
            setattr(other, name, value(given) if callable(value) else value)
        return conversation(oracle.reference, other).rendered

    return compute


def messages_by(change: Callable[[list[Message]], list[Message]]) -> Compute:
    """What the template makes of changed messages."""
    return given_with(messages=lambda given: json.dumps(change(json.loads(given.messages)), ensure_ascii=False))


def _content(change: Callable[[str], str], roles: Sequence[str] = ()) -> Compute:
    """The contents of the messages changed."""

    def one(message: Message) -> Message:
        content = message.get("content")
        wanted = not roles or message.get("role") in roles
        return message | {"content": change(content)} if wanted and isinstance(content, str) else message

    return messages_by(lambda messages: [one(message) for message in messages])


def text_by(change: Callable[[str], str]) -> Compute:
    """The rendered text changed."""
    return lambda oracle, given, _: change(conversation(oracle.reference, given).rendered)


def _prompted(change: Callable[[str, pb.Conversation], str]) -> Compute:
    """Changed where a generation prompt is asked for."""

    def compute(oracle: Oracle, given: pb.Conversation, _: State) -> Any:
        text = conversation(oracle.reference, given).rendered
        return change(text, given) if given.add_generation_prompt else text

    return compute


def _system_in_front(words: str) -> Compute:
    def change(messages: list[Message]) -> list[Message]:
        has = bool(messages) and messages[0].get("role") == "system"
        return messages if has else [{"role": "system", "content": words}, *messages]

    return messages_by(change)


def _plain(end: str = f"{_END}\n") -> Compute:
    """ChatML of roles and contents, nothing else."""

    def compute(oracle: Oracle, given: pb.Conversation, _: State) -> Any:
        messages = json.loads(given.messages)
        turns = [f"<|im_start|>{one.get('role')}\n{one.get('content') or ''}{end}" for one in messages]
        return "".join(turns) + (PROMPT if given.add_generation_prompt else "")

    return compute


def _tool_turns(text: str) -> str:
    inside = "\n</tool_response>\n<tool_response>\n"
    return text.replace(inside, f"\n</tool_response>{_END}\n<|im_start|>user\n<tool_response>\n")


def _tool_role(oracle: Oracle, given: pb.Conversation, _: State) -> Any:
    text = _tool_turns(conversation(oracle.reference, given).rendered)
    return re.sub(
        r"<\|im_start\|>user\n<tool_response>\n(.*?)\n</tool_response>", r"<|im_start|>tool\n\1", text, flags=re.S
    )


def _opened(text: str, given: pb.Conversation) -> str:
    return text if given.thinking == pb.THINKING_OFF else f"{text}<think>\n"


def _empty_as(new: str) -> Compute:
    def change(text: str, _: pb.Conversation) -> str:
        return text.removesuffix(EMPTY_THOUGHT) + new if text.endswith(EMPTY_THOUGHT) else text

    return _prompted(change)


_SWITCHES = wrong_ways(
    "rendered",
    "pass enable_thinking on as it is given: absent is neither true nor false; only false adds to the prompt",
    [
        ("thinking_flag_ignored", "does not pass enable_thinking on", given_with(thinking=pb.THINKING_ABSENT)),
        ("absent_is_off", "takes enable_thinking for false where it is not given",
            given_with(thinking=lambda g: g.thinking or pb.THINKING_OFF)),
        ("thinking_inverted", "takes enable_thinking for its contrary",
            given_with(thinking=lambda g: {0: 0, 1: 2, 2: 1}[g.thinking])),
        ("thinking_off", "takes enable_thinking for false", given_with(thinking=pb.THINKING_OFF)),
        ("on_is_off", "takes enable_thinking for false where it is given",
            given_with(thinking=lambda g: pb.THINKING_OFF if g.thinking else g.thinking)),
        ("think_opened", "opens a think block behind the generation prompt", _prompted(_opened)),
        ("think_opened", "opens a think block where thinking is on",
            _prompted(lambda t, g: f"{t}<think>\n" if g.thinking == pb.THINKING_ON else t)),
        *(("think_block_trimmed", f"writes the empty think block as {new!r}", _empty_as(new))
          for new in ("<think>\n\n</think>", "<think>\n\n</think>\n", "<think>\n</think>\n\n", "<think></think>\n\n",
                      "<think></think>", "<think>\n</think>\n", "</think>\n\n", "<think>\n\n")),
    ],
)  # fmt: skip

_TURNS = wrong_ways(
    "rendered",
    "run the tokenizer's own chat template (Jinja, trim_blocks, lstrip_blocks) on the messages as they are",
    [
        ("no_generation_prompt", "ignores add_generation_prompt", given_with(add_generation_prompt=False)),
        ("generation_prompt_always", "always adds the generation prompt", given_with(add_generation_prompt=True)),
        ("generation_prompt_inverted", "takes add_generation_prompt for its contrary",
            given_with(add_generation_prompt=lambda g: not g.add_generation_prompt)),
        ("generation_prompt_stripped", "ends the generation prompt without its newline",
            _prompted(lambda t, g: t.removesuffix("\n"))),
        ("tools_ignored", "does not pass tools to the template", given_with(tools="")),
        ("plain_chatml", "writes roles and contents as ChatML, without the template", _plain()),
        ("plain_chatml", "writes roles and contents as ChatML, without a newline between turns", _plain(_END)),
        ("default_system", "puts a system turn in front where there is none", _system_in_front(_HELPFUL)),
        ("default_system", "puts Qwen2.5's system turn in front",
            _system_in_front(f"You are Qwen, created by Alibaba Cloud. {_HELPFUL}")),
        ("default_system", "puts an empty system turn in front", _system_in_front("")),
        ("system_dropped", "drops system turns", messages_by(lambda ms: [m for m in ms if m.get("role") != "system"])),
        ("system_dropped", "drops a system turn in front",
            messages_by(lambda ms: ms[1:] if ms and ms[0].get("role") == "system" else ms)),
        ("late_system_dropped", "drops system turns but in front",
            messages_by(lambda ms: [*ms[:1], *(m for m in ms[1:] if m.get("role") != "system")])),
        ("system_first", "moves system turns to the front",
            messages_by(lambda ms: sorted(ms, key=lambda m: m.get("role") != "system"))),
        ("last_message_only", "renders the last message alone", messages_by(lambda ms: ms[-1:])),
        ("contents_stripped", "strips white space off contents", _content(str.strip)),
        ("contents_stripped", "strips white space off the contents of users", _content(str.strip, ("user",))),
        ("contents_stripped", "strips white space off the contents of assistants", _content(str.strip, ("assistant",))),
        ("contents_stripped", "strips white space behind contents", _content(str.rstrip)),
        ("contents_stripped", "strips white space before contents", _content(str.lstrip)),
        ("html_escaped", "escapes contents as HTML", _content(html.escape)),
        ("html_escaped", "escapes contents as HTML, but quotes", _content(lambda c: html.escape(c, quote=False))),
        ("html_escaped", "escapes contents as HTML (autoescape)",
            _content(lambda c: html.escape(c).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"))),
        ("special_removed", "removes the names of special tokens from contents",
            _content(lambda c: re.sub(r"<\|[a-z_]+\|>", "", c))),
        ("calls_ignored", "drops tool calls",
            messages_by(lambda ms: [{k: v for k, v in m.items() if k != "tool_calls"} for m in ms])),
        ("tool_turns_apart", "gives each tool's answer a turn of its own", text_by(_tool_turns)),
        ("tool_role", "gives tools' answers a turn of the role tool", _tool_role),
        ("no_newline", "writes no newline behind turns", text_by(lambda t: t.replace(f"{_END}\n", _END))),
        ("no_newline", "writes no newline at the end", text_by(lambda t: t.removesuffix("\n"))),
        ("stripped", "strips the rendered text", text_by(str.strip)),
        ("stripped", "strips white space behind the rendered text", text_by(str.rstrip)),
        ("space_behind_role", "writes a space for the newline behind the role",
            text_by(lambda t: re.sub(r"(<\|im_start\|>\w+)\n", r"\1 ", t))),
        ("blocks_untrimmed", "begins with a newline, as Jinja without trim_blocks does", text_by(lambda t: f"\n{t}")),
        ("newline_at_the_end", "ends with a newline more", text_by(lambda t: f"{t}\n")),
        ("bos_added", "begins with <|endoftext|>", text_by(lambda t: f"<|endoftext|>{t}")),
        ("eos_added", "ends with <|endoftext|>", text_by(lambda t: f"{t}<|endoftext|>")),
        ("eos_added", "ends with <|im_end|>", text_by(lambda t: f"{t}{_END}")),
        ("end_missing", "leaves the last turn open", text_by(lambda t: t.removesuffix(f"{_END}\n"))),
    ],
)  # fmt: skip

WRONG: list[Wrong] = [*_SWITCHES, *_TURNS]
"""Of the stage `rendered`."""
