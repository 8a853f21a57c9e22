"""Chat templates: the text that Hugging Face renders."""

import random
from dataclasses import replace
from typing import Any

import pytest

from qwen3_encdec.tokenizer.chat import render
from qwen3_encdec.tokenizer.errors import TokenizerError
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

USER = {"role": "user", "content": "na\u00efve \u4e2d\u6587 <b>&'\""}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "K\u00f6ln <&'>"}}}
TOOLS = [{"type": "function", "function": {"name": "w\u00e9tter", "description": "<&'>", "parameters": {}}}]
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "one turn": [USER],
    "system": [{"role": "system", "content": "Be  brief.\n"}, USER],
    "several turns": [USER, {"role": "assistant", "content": "\n\nYes."}, USER],
    "thinking": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}, USER,
                 {"role": "assistant", "content": "<think>\nhm\n</think>\n\nNo."}],
    "reasoning": [USER, {"role": "assistant", "content": "Yes.", "reasoning_content": "\nhm\n"}],
    "reasoning by an older name": [USER, {"role": "assistant", "content": "Yes.", "thinking": "hm"}],
    "tool calls": [USER, {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
                   {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}],
    "nothing but null": [USER, {"role": "assistant", "content": None, "tool_calls": None}],
    "a list of parts": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
}  # fmt: skip


def hf_text(hf: Any, messages: Any, **given: Any) -> str:
    return str(hf.apply_chat_template(messages, tokenize=False, **given))


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("thinking", [None, True, False])
def test_conversations_are_hugging_faces(hf: Any, ours: ByteLevelTokenizer, name: str, thinking: bool | None) -> None:
    messages = CONVERSATIONS[name]
    given = {} if thinking is None else {"enable_thinking": thinking}
    for tools in (None, [], TOOLS):
        for prompt in (False, True):
            theirs = hf_text(hf, messages, tools=tools, add_generation_prompt=prompt, **given)
            text = ours.render(messages, tools=tools, add_generation_prompt=prompt, enable_thinking=thinking)
            assert text == theirs


def test_random_conversations_are_hugging_faces(hf: Any, ours: ByteLevelTokenizer) -> None:
    draw = random.Random(28)
    contents = ["Hi", "<think>\nhm\n</think>\n\nyes", "\n lead", "", "</think>", "<tool_response>x</tool_response>"]
    for _ in range(300):
        messages: list[dict[str, Any]] = []
        for role in draw.choices(["system", "user", "assistant", "assistant", "tool"], k=draw.randint(1, 6)):
            messages.append({"role": role, "content": draw.choice(contents)})
            if role == "assistant" and draw.random() < 0.3:
                messages[-1][draw.choice(["reasoning_content", "reasoning", "thinking"])] = draw.choice(contents)
            if role == "assistant" and draw.random() < 0.3:
                messages[-1]["tool_calls"] = draw.choice([[], [CALL], [{"name": "y", "arguments": '{"z": 1}'}]])
        assert ours.render(messages) == hf_text(hf, messages), f"seed 28: {messages}"


def test_thinking_that_is_not_given_is_no_name_of_the_template() -> None:
    template = "{{ enable_thinking is defined }} {{ enable_thinking }}"
    assert render(template, [USER]) == "False "
    assert render(template, [USER], enable_thinking=False) == "True False"


def test_what_is_null_in_a_message_is_not_there(hf_tiny: Any) -> None:
    template, messages = "{{ messages[0].tool_calls is defined }}", [{"role": "user", "tool_calls": None}]
    assert render(template, messages) == hf_text(hf_tiny, messages, chat_template=template) == "False"


@pytest.mark.parametrize(
    "template",
    ["{{ messages | tojson }}", "{{ messages | tojson(indent=2) }}", "{{ tools }} {{ documents }} {{ eos_token }}",
     "{% generation %}a{% endgeneration %}\nb",
     "{% for m in messages %}\n  {% if 1 %}\n  {{ m.role }}\n  {% endif %}\n{% endfor %}",
     "{% for m in messages %}{% break %}{% endfor %}x", "{% set n = namespace(a=1) %}{% set n.a = 2 %}{{ n.a }}",
     "{{ messages[0].nothing }}|{{ bos_token }}|{{ ''.__class__ }}", "{{ messages[0].content | trim | upper }}"],
)  # fmt: skip
def test_templates_find_what_they_find_at_hugging_face(
    hf_tiny: Any, ours_tiny: ByteLevelTokenizer, template: str
) -> None:
    other = ByteLevelTokenizer(replace(ours_tiny.files, chat_template=template))
    assert other.render([USER]) == hf_text(hf_tiny, [USER], chat_template=template)


def test_a_template_that_asks_for_the_date_is_refused() -> None:
    with pytest.raises(TokenizerError, match="the same messages give the same text every day"):
        render("{{ strftime_now('%d') }}", [USER])


@pytest.mark.parametrize(
    "template",
    ["{{ raise_exception('roles must alternate') }}", "{% if %}", "{{ 1 / 0 }}", "{{ messages[0].a.b }}",
     "{{ messages.append(1) }}", "{% set n = namespace(_a=1) %}",
     "{% set n = namespace() %}{% set n.__class__ = 1 %}", "{{ range(10000000) }}"],
)  # fmt: skip
def test_what_a_template_refuses_or_must_not_do_is_one_error(hf_tiny: Any, template: str) -> None:
    with pytest.raises(TokenizerError, match=r"chat template: the template renders the messages(.|\n)*got: +\w+: "):
        render(template, [USER])
    with pytest.raises(Exception):  # noqa: B017 (whatever it is, it is no text)
        hf_text(hf_tiny, [USER], chat_template=template)


def test_a_templates_reason_is_told() -> None:
    with pytest.raises(TokenizerError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}", [USER])


def test_a_template_does_not_change_the_callers_messages() -> None:
    messages = [{"role": "user", "content": "a", "thinking": "b"}]
    render("{{ messages[0].reasoning_content }}", messages)
    assert messages == [{"role": "user", "content": "a", "thinking": "b"}]


@pytest.mark.parametrize(
    ("messages", "where"),
    [(["Hi"], r"messages\[0\]"), ([USER, {"content": [b"x"]}], r"messages\[1\].content\[0\]"), ([], "messages"),
     ("Hi", "messages"), ({"role": "user"}, "messages")],
)  # fmt: skip
def test_messages_that_are_no_data_are_refused(messages: Any, where: str) -> None:
    with pytest.raises(TokenizerError, match=f"^{where}: "):
        render("x", messages)


def test_a_tool_that_is_no_data_is_refused() -> None:
    with pytest.raises(TokenizerError, match=r"^tools\[0\]: messages and tools are JSON data"):
        render("x", [USER], tools=[print])  # type: ignore[list-item]


def test_a_tokenizer_without_a_template_renders_nothing(ours_tiny: ByteLevelTokenizer) -> None:
    with pytest.raises(TokenizerError, match="messages are rendered by the tokenizer's template"):
        ByteLevelTokenizer(replace(ours_tiny.files, chat_template=None)).render([USER])
