"""Reading `tokenizer.json`: what this tokenizer does of it; whatever it would do otherwise is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .added_tokens import AddedToken
from .errors import TokenizerError
from .json_files import read_json
from .vocabulary import Merges, check_merges, checked_vocabulary

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What the pre-tokenizer ByteLevel splits by when it is told to use its regex."""

_FLAGS = ("special", "lstrip", "rstrip", "single_word", "normalized")


@dataclass(frozen=True)
class TokenizerJson:
    """What a `tokenizer.json` says; `normalizer` is "NFC" or ""."""

    vocabulary: dict[str, int]
    merges: Merges
    added_tokens: tuple[AddedToken, ...]
    pattern: str
    pattern_is_literal: bool
    normalizer: str


def read_tokenizer_json(path: Path) -> TokenizerJson:
    """The file's content, checked; `TokenizerError` says which part of it is wrong, or not done here."""
    content = read_json(path)
    model = _table(path, "model", content.get("model"))
    _only(path, "model", model, type=["BPE"], dropout=[None, 0], byte_fallback=[None, False])
    _only(path, "model", model, ignore_merges=[None, False])
    _only(path, "model", model, continuing_subword_prefix=[None, ""], end_of_word_suffix=[None, ""])
    _only(path, "tokenizer", content, truncation=[None], padding=[None])
    _only(path, "decoder", _table(path, "decoder", content.get("decoder")), type=["ByteLevel"])
    if (processor := content.get("post_processor")) is not None:
        _only(
            path, "post_processor", _table(path, "post_processor", processor), type=["ByteLevel"], trim_offsets=[False]
        )
    vocabulary = checked_vocabulary(f"{path}, model.vocab", model.get("vocab"))
    merges = [_merge(path, rank, item) for rank, item in enumerate(_list(path, "model.merges", model.get("merges")))]
    check_merges(lambda rank: f"{path}, model.merges[{rank}]", vocabulary, merges)
    tokens = _list(path, "added_tokens", content.get("added_tokens", []))
    pattern, is_literal = _pattern(path, content.get("pre_tokenizer"))
    return TokenizerJson(
        vocabulary,
        merges,
        tuple(added_token(f"{path}, added_tokens[{index}]", item) for index, item in enumerate(tokens)),
        pattern,
        is_literal,
        _normalizer(path, content.get("normalizer")),
    )


def added_token(where: str, item: Any, id: Any = None) -> AddedToken:
    """An added token as JSON has it; a flag that is not given is false, `normalized` the opposite of `special`."""
    table = _table(where, "an added token", item)
    flags = {name: table.get(name, False) for name in _FLAGS}
    flags["normalized"] = table.get("normalized", not flags["special"])
    id, content = table.get("id") if id is None else id, table.get("content")
    if type(id) is not int or not 0 <= id < 1 << 32 or not isinstance(content, str) or content == "":
        expected, got = "an id from 0 to 2^32 - 1 and a text that is not empty", f"id {id!r}, content {content!a}"
    elif wrong := [name for name, flag in flags.items() if type(flag) is not bool]:
        expected, got = f"{wrong[0]} true or false", repr(flags[wrong[0]])
    else:
        return AddedToken(id, content, **flags)
    raise TokenizerError(
        where, "an added token has an id, a content and flags", expected=expected, got=got, next_step="correct it"
    )


def _pattern(path: Path, content: Any) -> tuple[str, bool]:
    """The pattern by which text is split, and whether it is plain text rather than a regex."""
    table = _table(path, "pre_tokenizer", content)
    steps = _list(path, "pre_tokenizer", table.get("pretokenizers")) if table.get("type") == "Sequence" else [table]
    steps = [_table(path, f"pre_tokenizer[{index}]", step) for index, step in enumerate(steps)]
    kinds = [step.get("type") for step in steps]
    if kinds not in (["ByteLevel"], ["Split", "ByteLevel"]):
        raise _refused(
            path, "pre_tokenizer", "ByteLevel alone, or Split and then ByteLevel", " and then ".join(map(str, kinds))
        )
    _only(path, "pre_tokenizer ByteLevel", steps[-1], add_prefix_space=[False])
    # The library's own default of use_regex is true.
    uses_regex = steps[-1].get("use_regex", True)
    if uses_regex is not (len(steps) == 1):
        raise _refused(path, "pre_tokenizer", "one pattern: ByteLevel's own, or Split's", f"use_regex {uses_regex!r}")
    if len(steps) == 1:
        return GPT2_PATTERN, False
    _only(path, "pre_tokenizer Split", steps[0], behavior=["Isolated"], invert=[None, False])
    pattern = _table(path, "pre_tokenizer Split pattern", steps[0].get("pattern"))
    kind, text = next(iter(pattern.items()), (None, None))
    if len(pattern) != 1 or kind not in ("Regex", "String") or not isinstance(text, str):
        raise _refused(path, "pre_tokenizer Split pattern", '{"Regex": …} or {"String": …}', str(pattern)[:80])
    return text, kind == "String"


def _normalizer(path: Path, content: Any) -> str:
    steps = [] if content is None else [_table(path, "normalizer", content)]
    if steps and steps[0].get("type") == "Sequence":
        steps = _list(path, "normalizer", steps[0].get("normalizers"))
    for step in steps:
        _only(path, "normalizer", _table(path, "normalizer", step), type=["NFC"])
    return "NFC" if steps else ""


def _merge(path: Path, rank: int, item: Any) -> tuple[str, str]:
    parts = item.split(" ") if isinstance(item, str) else item
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) and part for part in parts):
        raise _refused(path, f"model.merges[{rank}]", "'left right' or ['left', 'right']", ascii(item)[:80])
    return parts[0], parts[1]


def _only(path: Path, part: str, table: dict[str, Any], **accepted: Sequence[object]) -> None:
    for name, values in accepted.items():
        got = table.get(name)
        if not any(got == value and isinstance(got, bool) == isinstance(value, bool) for value in values):
            raise _refused(path, f"{part}, {name}", " or ".join(map(repr, values)), ascii(got)[:80])


def _table(where: object, part: str, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise _refused(where, part, "a JSON object", ascii(content)[:80])
    return content


def _list(path: Path, part: str, content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise _refused(path, part, "a JSON array", ascii(content)[:80])
    return content


def _refused(where: object, part: str, expected: str, got: str) -> TokenizerError:
    return TokenizerError(
        f"{where}, {part}",
        "the tokenizer is a byte-level BPE of Qwen's kind",
        expected=expected,
        got=got,
        next_step="this tokenizer does nothing else; take a tokenizer.json of a Qwen model as the pattern",
    )
