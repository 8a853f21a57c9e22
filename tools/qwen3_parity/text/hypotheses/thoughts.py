"""Wrong ways to render what an assistant thought."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.conversations import EMPTY_THOUGHT, PROMPT, Message, messages_by, text_by
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_reference.tokenization.chat import conversation


def _thoughts(write: Callable[[str, str, str], str], apart: bool = True) -> Compute:
    """Assistants' turns by `write(thought, answer, content)`, in the place of (`apart`) an empty think block."""

    def compute(oracle: Oracle, given: pb.Conversation, _: State) -> Any:
        messages, written = json.loads(given.messages), list[str]()
        for message in messages:
            content = message.get("content")
            if message.get("role") != "assistant" or not isinstance(content, str):
                continue
            thought, answer = message.pop("reasoning_content", ""), content
            if not thought and "</think>" in content:
                thought, answer = content.split("</think>")[0].split("<think>")[-1], content.split("</think>")[-1]
            written.append(write(thought.strip("\n"), answer.lstrip("\n") if thought else answer, content))
            message["content"] = f"\ue000{len(written) - 1}\ue001"
        other = pb.Conversation(messages=json.dumps(messages, ensure_ascii=False), tools=given.tools)
        other.add_generation_prompt, other.thinking = given.add_generation_prompt, given.thinking
        text = conversation(oracle.reference, other).rendered
        block = f"(?:{re.escape(EMPTY_THOUGHT)})?" if apart else ""
        return re.sub(block + "\ue000(\\d+)\ue001", lambda found: written[int(found[1])], text)

    return compute


def _block(thought: str, answer: str, _: str) -> str:
    return f"<think>\n{thought}\n</think>\n\n{answer}" if thought else answer


def _raw(thought: str, answer: str, content: str) -> str:
    return content if "</think>" in content or not thought else _block(thought, answer.lstrip("\n"), content)


def _thoughtless(messages: list[Message]) -> list[Message]:
    def one(message: Message) -> Message:
        rest = {key: value for key, value in message.items() if key != "reasoning_content"}
        if message.get("role") != "assistant" or not isinstance(message.get("content"), str):
            return message
        return rest | {"content": message["content"].rpartition("</think>")[2].lstrip("\n")}

    return [one(message) for message in messages]


WRONG: list[Wrong] = wrong_ways(
    "rendered",
    "keep thoughts only behind the last question of a user, drop them in earlier turns",
    [
        ("thoughts_kept", "keeps the thoughts of every turn", _thoughts(_block)),
        ("thoughts_kept", "writes a think block into every turn, empty ones too",
            _thoughts(lambda thought, answer, _: f"<think>\n{thought}\n</think>\n\n{answer}")),
        ("thoughts_kept", "keeps thoughts in contents, and puts the last turn's empty think block before them",
            _thoughts(_raw, apart=False)),
        ("thoughts_dropped", "drops thoughts before the template sees them", messages_by(_thoughtless)),
        ("think_block_trimmed", "writes empty think blocks without their empty lines",
            text_by(lambda t: t.replace(EMPTY_THOUGHT, "<think></think>"))),
        ("think_block_trimmed", "writes empty think blocks without their empty lines",
            text_by(lambda t: t.replace(EMPTY_THOUGHT, "<think></think>\n\n"))),
        ("thoughts_raw", "writes assistants' contents as they are",
            _thoughts(lambda thought, answer, content: content)),
        ("thoughts_dropped", "drops the thoughts of every turn", _thoughts(lambda thought, answer, _: answer)),
        ("thoughts_dropped", "empties the think blocks",
            text_by(lambda t: re.sub(r"<think>\n.*?\n</think>\n\n", EMPTY_THOUGHT, t, flags=re.S))),
        ("thoughts_dropped", "drops think blocks",
            text_by(lambda t: re.sub(r"<think>\n.*?\n</think>\n\n", "", t, flags=re.S))),
        ("empty_thoughts_dropped", "drops empty think blocks", text_by(lambda t: t.replace(EMPTY_THOUGHT, ""))),
        ("think_block_trimmed", "writes one newline behind think blocks",
            text_by(lambda t: t.replace("</think>\n\n", "</think>\n"))),
        ("think_block_trimmed", "writes no newlines behind think blocks",
            text_by(lambda t: t.replace("</think>\n\n", "</think>"))),
        ("think_block_trimmed", "writes no newlines inside think blocks",
            text_by(lambda t: t.replace("<think>\n", "<think>").replace("\n</think>", "</think>"))),
        ("think_block_trimmed", "writes empty think blocks with one newline",
            text_by(lambda t: t.replace("<think>\n\n</think>", "<think>\n</think>"))),
        ("reasoning_content_ignored", "does not know reasoning_content",
            messages_by(lambda ms: [{k: v for k, v in m.items() if k != "reasoning_content"} for m in ms])),
        ("rendered_one_by_one", "renders assistants' turns as if each were the last", lambda o, g, _: _as_last(o, g)),
    ],
)  # fmt: skip


def _as_last(oracle: Oracle, given: pb.Conversation) -> str:
    messages = json.loads(given.messages)
    out = ""
    for count in range(1, len(messages) + 1):
        other = pb.Conversation(messages=json.dumps(messages[:count], ensure_ascii=False), tools=given.tools)
        text = conversation(oracle.reference, other).rendered
        turns = re.split(r"(?=<\|im_start\|>)", text)
        out = text if count == 1 else out + turns[-1]
    whole = conversation(oracle.reference, given).rendered
    return out + (whole[whole.rindex(PROMPT) :] if given.add_generation_prompt else "")


"""Of the stage `rendered`: think blocks."""
