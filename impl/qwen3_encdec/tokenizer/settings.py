"""Reading `tokenizer_config.json`: which tokens are added, what special tokens are called, padding, the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .added_tokens import AddedToken
from .errors import TokenizerError
from .json_files import read_json
from .tokenizer_json import added_token

ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
QWEN2 = ("Qwen2Tokenizer", "Qwen2TokenizerFast")
_QWEN2_DEFAULTS = dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>")


@dataclass(frozen=True)
class Settings:
    """What a `tokenizer_config.json` says. `named`: special tokens by role; `added_tokens` None: it does not say."""

    path: Path
    tokenizer_class: str | None
    named: Mapping[str, str]
    extra: tuple[str, ...]
    added_tokens: tuple[AddedToken, ...] | None
    chat_template: str | None
    padding_side: str
    truncation_side: str

    @property
    def is_qwen2(self) -> bool:
        """Whether Hugging Face would take Qwen2Tokenizer, when told nothing else."""
        return self.tokenizer_class is None or self.is_qwen2_by_name

    @property
    def is_qwen2_by_name(self) -> bool:
        """Whether the file names that class."""
        return self.tokenizer_class in QWEN2


def read_settings(path: Path) -> Settings:
    """The file's content; a directory without it has the class's defaults."""
    with_file = path.is_file()
    content = read_json(path) if with_file else {}
    tokenizer_class = _text(path, "tokenizer_class", content.get("tokenizer_class"))
    whole_default = not with_file and not path.with_name("tokenizer.json").is_file()
    defaults = _QWEN2_DEFAULTS if tokenizer_class in QWEN2 or whole_default else {}
    named: dict[str, str] = {}
    # In this order they are numbered where they have no id yet.
    for role in (*ROLES, *(key for key in content if key.endswith("_token") and key not in ROLES)):
        value = content.get(role, defaults.get(role))
        if role in ROLES or isinstance(value, str | dict):
            name = _text(path, role, value.get("content") if isinstance(value, dict) else value)
            if name is not None:
                named[role] = name
    extra = content.get("extra_special_tokens", content.get("additional_special_tokens")) or []
    listed = content.get("added_tokens_decoder")
    return Settings(
        path,
        tokenizer_class,
        named,
        tuple(_names(path, extra)),
        None if listed is None else _added_tokens(path, listed),
        _template(path, content.get("chat_template")),
        _side(path, "padding_side", content),
        _side(path, "truncation_side", content),
    )


def named_as_added(
    settings: Settings, vocabulary: Mapping[str, int], added: Sequence[AddedToken]
) -> tuple[AddedToken, ...]:
    """The added tokens, with those that are only named, numbered as Hugging Face does; Qwen2Tokenizer also takes the
    flags off those that are named and makes them special."""
    tokens = {token.content: token for token in added}
    for name in (*settings.named.values(), *settings.extra):
        if name in tokens:
            if not settings.is_qwen2:
                tokens[name] = replace(tokens[name], special=True)
                continue
            id = tokens[name].id
        else:
            largest = max((token.id for token in tokens.values()), default=-1)
            id = vocabulary.get(name, largest + 1 if largest >= len(vocabulary) else len(vocabulary))
        tokens[name] = AddedToken(id, name)
    return tuple(tokens.values())


def numbered(where: object, vocabulary: Mapping[str, int], added: Sequence[AddedToken]) -> tuple[AddedToken, ...]:
    """The added tokens by id, if their ids are free and those that Hugging Face gives them.

    It gives an added token the id of its entry in the vocabulary, or else the next one behind all others, whatever the
    file says: over a gap it would silently renumber.
    """
    pieces = {id: piece for piece, id in vocabulary.items()}
    by_id = tuple(sorted(added, key=lambda token: token.id))
    largest = -1
    contents: set[str] = set()
    for token in by_id:
        following = largest + 1 if largest >= len(vocabulary) else len(vocabulary)
        expected = vocabulary.get(token.content, following)
        owner = pieces.get(token.id, token.content)
        if token.id != expected or owner != token.content or token.content in contents:
            raise TokenizerError(
                f"{where}, added token {token.content!a}",
                "an added token has an id of its own: its entry's in the vocabulary, or the next one behind all others",
                expected=f"id {expected}, once",
                got=f"id {token.id}, which is {owner!a}'s" if owner != token.content else f"id {token.id}",
                next_step="give it that id, or enter it in the vocabulary with the id that it must have",
            )
        largest = token.id
        contents.add(token.content)
    return by_id


def _added_tokens(path: Path, listed: Any) -> tuple[AddedToken, ...]:
    if not isinstance(listed, dict):
        raise _refused(path, "added_tokens_decoder", "a JSON object", listed)
    if wrong := [id for id in listed if not (id.isascii() and id.isdigit())]:
        raise _refused(path, "added_tokens_decoder", "ids as keys", wrong[0])
    return tuple(added_token(f"{path}, added_tokens_decoder[{id}]", item, int(id)) for id, item in listed.items())


def _names(path: Path, listed: Any) -> list[str]:
    values = list(listed.values()) if isinstance(listed, dict) else listed
    if not isinstance(values, list):
        raise _refused(path, "extra_special_tokens", "an array of names", listed)
    values = [value.get("content") if isinstance(value, dict) else value for value in values]
    if wrong := [value for value in values if not isinstance(value, str)]:
        raise _refused(path, "extra_special_tokens", "names", wrong[0])
    return values


def _template(path: Path, content: Any) -> str | None:
    if isinstance(content, list):
        templates = {item.get("name"): item.get("template") for item in content if isinstance(item, dict)}
        content = templates.get("default", content)
    return _text(path, "chat_template", content)


def _text(path: Path, key: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _refused(path, key, "a text or null", value)
    return value


def _side(path: Path, key: str, content: Mapping[str, Any]) -> str:
    side = content.get(key, "right")
    if side not in ("left", "right"):
        raise _refused(path, key, "'left' or 'right'", side)
    return str(side)


def _refused(path: Path, key: str, expected: str, got: object) -> TokenizerError:
    return TokenizerError(
        f"{path}, {key}",
        "a setting is of its kind",
        expected=expected,
        got=ascii(got)[:80],
        next_step="correct the file, or fetch it again",
    )
