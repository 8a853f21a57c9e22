"""JSON and text from a tokenizer's directory; whatever cannot be read is one `TokenizerError`."""

import json
import re
from pathlib import Path
from typing import Any

from qwen3_encdec.regular_file import open_inside

from .errors import TokenizerError

_ESCAPED_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")

_MAX_DIGITS = 19


def read_text(path: Path) -> str:
    """A file's text, which is UTF-8 on every platform."""
    try:
        with open_inside(path) as file:
            return file.read().decode()
    except OSError as error:
        raise TokenizerError(
            path,
            "the file can be read",
            expected="a regular file of its folder, readable",
            got=error.strerror or error,
            next_step="check the path and its permissions",
        ) from error
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"{path}, byte {error.start}",
            "the file is UTF-8",
            expected="UTF-8",
            got=f"the bytes {error.object[error.start : error.start + 8]!r}",
            next_step="save it as UTF-8, or fetch it again",
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """A file's JSON object. A key that stands twice in an object is refused: stock readers keep one."""
    text = read_text(path)

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            keys: set[str] = set()
            for key, value in pairs:
                if key in keys:
                    raise TokenizerError(
                        path,
                        "a key stands once in its object",
                        expected=f"one entry for {key!r}",
                        got=f"another one, with the value {str(value)[:60]}",
                        next_step="find out which is meant, and remove the other",
                    )
                keys.add(key)
        return entries

    def integer(digits: str) -> int:
        if len(digits.lstrip("-")) > _MAX_DIGITS:
            raise TokenizerError(
                path,
                "an integer fits into 64 bits",
                expected=f"at most {_MAX_DIGITS} digits",
                got=f"{len(digits.lstrip('-'))} digits, {digits[:20]}…",
                next_step="fetch the file again",
            )
        return int(digits)

    try:
        content = json.loads(text, object_pairs_hook=members, parse_int=integer)
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, column {error.colno} (character {error.pos} of {len(text)})"
        raise TokenizerError(
            place,
            "the file is JSON",
            expected="a whole JSON object",
            got=f"{error.msg}; before it {text[max(0, error.pos - 30) : error.pos]!a}",
            next_step="the file may be cut off: fetch it again",
        ) from error
    except RecursionError as error:
        raise TokenizerError(
            path, "the file is JSON", expected="a few levels", got="endless nesting", next_step="fetch it again"
        ) from error
    if not isinstance(content, dict):
        raise TokenizerError(
            path, "the file is a JSON object", expected="{…}", got=type(content).__name__, next_step="fetch it again"
        )
    if _ESCAPED_SURROGATE.search(text):
        _refuse_surrogates(path, content)
    return content


def _refuse_surrogates(path: Path, content: dict[str, Any]) -> None:
    # JSON can escape half a character; nothing can be done with it.
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        got, before = error.object[error.start], error.object[max(0, error.start - 20) : error.start]
        raise TokenizerError(
            path,
            "texts are whole characters",
            expected="no lone surrogates",
            got=f"U+{ord(got):04X} behind {before!a}",
            next_step="remove the entry",
        ) from error
