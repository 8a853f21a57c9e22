"""Chat templates: messages to text, by the Jinja template that comes with a tokenizer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import jinja2.utils

from .errors import TokenizerError
from .limits import limited

REASONING = ("reasoning_content", "thinking", "reasoning")
"""Names under which messages carry what an assistant thought; templates read the first."""
_KNOWN = frozenset(
    (
        "6e37b814a43986a4e40bd5ec9764f10c11d73fbd574cc2dc527fde290591710b",
        "a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8",
    )
)
"""SHA-256 of the templates that somebody has read: Qwen3's own."""


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = False,
    enable_thinking: bool | None = None,
    special_tokens: Mapping[str, str] | None = None,
) -> str:
    """What the template makes of the messages, equal to Hugging Face's `apply_chat_template(…, tokenize=False)`.

    `enable_thinking` None: the template does not know the name. `special_tokens`: "eos_token" and the like, by name.
    Messages and tools are plain JSON data; what is not, and whatever the template refuses, raises `TokenizerError`. So
    does a template that takes more time, memory or text than `limits` allow; Qwen's own run without.
    """
    if not isinstance(messages, list | tuple) or not messages:
        raise _no_data(messages, "messages", "a list of one message or more")
    variables: dict[str, Any] = dict(special_tokens or {})
    if enable_thinking is not None:
        variables["enable_thinking"] = enable_thinking
    variables["messages"] = [_message(message, f"messages[{at}]") for at, message in enumerate(messages)]
    variables["tools"] = None if tools is None else [_tool(tool, f"tools[{at}]") for at, tool in enumerate(tools)]
    variables |= {"documents": None, "add_generation_prompt": add_generation_prompt}
    if hashlib.sha256(template.encode()).hexdigest() in _KNOWN:
        return _rendered(template, variables)
    return limited(lambda: _rendered(template, variables), "chat template")


def _rendered(template: str, variables: Mapping[str, Any]) -> str:
    try:
        return _compiled(template).render(variables)
    except (TokenizerError, MemoryError):
        raise
    except Exception as error:  # a template may do whatever Python does wrong
        raise TokenizerError(
            "chat template",
            "the template renders the messages",
            expected="text",
            got=f"{type(error).__name__}: {error}",
            next_step="compare the messages with what the template reads",
        ) from error


def _message(message: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise _no_data(message, where, 'an object such as {"role": "user", "content": "Hi"}')
    # Hugging Face leaves out what is null, so that a template sees it as undefined.
    plain = {key: _plain(value, f"{where}.{key}") for key, value in message.items() if value is not None}
    reasoning = next((plain[name] for name in REASONING if name in plain), None)
    return plain if reasoning is None else {"thinking": reasoning, **plain, "reasoning_content": reasoning}


def _tool(tool: Mapping[str, Any], where: str) -> Any:
    if not isinstance(tool, Mapping):
        raise _no_data(tool, where, "the JSON schema of a function")
    return _plain(tool, where)


def _plain(value: Any, where: str) -> Any:
    """A copy that shares nothing with the caller's data, for templates are not to be trusted with objects."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {_plain(key, where): _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{at}]") for at, item in enumerate(value)]
    raise _no_data(value, where, "JSON data: text, a number, true, false, null, a list or an object")


def _no_data(value: object, where: str, expected: str) -> TokenizerError:
    return TokenizerError(
        where, "messages and tools are JSON data", expected=expected, got=type(value).__name__, next_step="convert it"
    )


@lru_cache(maxsize=16)
def _compiled(template: str) -> jinja2.Template:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["namespace"] = _Namespace
    return environment.from_string(template)


class _Generation(jinja2.ext.Extension):
    """`{% generation %} … {% endgeneration %}` marks what an assistant wrote; the text is the same without."""

    tags = {"generation"}  # noqa: RUF012 (as jinja2 declares it)

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_unchanged"), [], [], body).set_lineno(line)

    def _unchanged(self, caller: Any) -> Any:
        return caller()


class _Namespace(jinja2.utils.Namespace):
    """Jinja's, without the names through which a template could reach into Python."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        attributes = dict(*rest, **kwargs)
        for name in attributes:
            _public(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _public(name)
        super().__setitem__(name, value)


def _public(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace has no attribute {name!r}: names begin with no underscore")


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    # Jinja's own filter writes < > & ' as \u003c …, which models were not trained on.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(layout: str) -> NoReturn:
    raise TokenizerError(
        "chat template",
        "the same messages give the same text every day",
        expected="a template that does not ask for today's date",
        got=f"strftime_now({layout!r})",
        next_step="put the date into the messages",
    )
