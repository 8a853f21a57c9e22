"""A tokenizer's directory, as Hugging Face writes it, read into plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .added_tokens import AddedToken
from .errors import TokenizerError
from .json_files import read_text
from .settings import Settings, named_as_added, numbered, read_settings
from .tokenizer_json import TokenizerJson, read_tokenizer_json
from .vocabulary import Merges, check_merges, read_merges, read_vocabulary

QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""What Hugging Face's Qwen2Tokenizer splits by, whatever its files say."""

__all__ = ["QWEN_PATTERN", "TokenizerFiles", "read_directory", "read_merges", "read_tokenizer_json", "read_vocabulary"]


@dataclass(frozen=True)
class TokenizerFiles:
    """What makes a tokenizer. Pieces are in symbols; merges are by rank, added tokens by id.

    The vocabulary has the entries of added tokens where the file has them. `normalizer` is "NFC" or "" for none.
    """

    vocabulary: dict[str, int]
    merges: Merges
    added_tokens: tuple[AddedToken, ...]
    pattern: str
    pattern_is_literal: bool
    normalizer: str
    pad_token: str | None
    eos_token: str | None
    bos_token: str | None
    unk_token: str | None
    chat_template: str | None
    padding_side: str
    truncation_side: str


def read_directory(directory: Path) -> TokenizerFiles:
    """The tokenizer of a directory; every bad input is one `TokenizerError`.

    `tokenizer.json`, or else `vocab.json` and `merges.txt`, which is what Hugging Face's Qwen2Tokenizer reads: its
    pattern and NFC are its own. Names of special tokens, padding and the template are in `tokenizer_config.json` and
    `chat_template.jinja`. Files that contradict each other are refused.
    """
    directory = Path(directory)
    settings = read_settings(directory / "tokenizer_config.json")
    vocab, merges = directory / "vocab.json", directory / "merges.txt"
    if (path := directory / "tokenizer.json").exists():
        said = read_tokenizer_json(path)
        _agree(path, settings, said)
        _same(vocab, path, said, read_vocabulary(vocab) if vocab.is_file() else None)
        if merges.is_file() and (listed := read_merges(merges)) != said.merges:
            raise _disagree(
                merges, path, f"{len(said.merges)} merges", f"{len(listed)}, or others, or in another order"
            )
    elif vocab.is_file() and merges.is_file():
        path = settings.path
        said = _qwen2(settings, read_vocabulary(vocab), merges)
    else:
        raise TokenizerError(
            directory,
            "the directory has a tokenizer",
            expected="tokenizer.json, or vocab.json and merges.txt",
            got=_listing(directory),
            next_step="give the directory of a checkpoint with its tokenizer's files",
        )
    added = named_as_added(settings, said.vocabulary, said.added_tokens)
    template = directory / "chat_template.jinja"
    return TokenizerFiles(
        said.vocabulary,
        said.merges,
        numbered(path, said.vocabulary, added),
        said.pattern,
        said.pattern_is_literal,
        said.normalizer,
        **{role: settings.named.get(role) for role in ("pad_token", "eos_token", "bos_token", "unk_token")},
        chat_template=_lines(template) if template.is_file() else settings.chat_template,
        padding_side=settings.padding_side,
        truncation_side=settings.truncation_side,
    )


def _qwen2(settings: Settings, vocabulary: dict[str, int], merges_path: Path) -> TokenizerJson:
    legacy = settings.path.with_name("added_tokens.json")
    if not settings.is_qwen2 or (settings.added_tokens is None and legacy.is_file()):
        raise TokenizerError(
            settings.path,
            "vocab.json and merges.txt alone are read as Hugging Face's Qwen2Tokenizer reads them",
            expected="tokenizer_class Qwen2Tokenizer, and added tokens in added_tokens_decoder",
            got=f"{settings.tokenizer_class}, {'added_tokens.json' if legacy.is_file() else 'without tokenizer.json'}",
            next_step="save the tokenizer with save_pretrained, which writes tokenizer.json",
        )
    merges = read_merges(merges_path)
    header = read_text(merges_path).startswith("#version")
    check_merges(lambda rank: f"{merges_path}, line {rank + 1 + header}", vocabulary, merges)
    return TokenizerJson(vocabulary, merges, settings.added_tokens or (), QWEN_PATTERN, False, "NFC")


def _agree(path: Path, settings: Settings, said: TokenizerJson) -> None:
    """Hugging Face lets tokenizer_config.json win silently, and Qwen2Tokenizer over both."""
    if settings.added_tokens is not None:
        ours, theirs = ({token.id: token for token in tokens} for tokens in (said.added_tokens, settings.added_tokens))
        for id in sorted(ours.keys() | theirs.keys()):
            if ours.get(id) != theirs.get(id):
                raise _disagree(settings.path, path, f"added token {ours.get(id)}", f"{theirs.get(id)}")
    if settings.is_qwen2_by_name and (said.pattern, said.pattern_is_literal) != (QWEN_PATTERN, False):
        raise _disagree(path, settings.path, f"Qwen2Tokenizer's pattern {QWEN_PATTERN}", said.pattern)
    if settings.is_qwen2_by_name and said.normalizer != "NFC":
        raise _disagree(path, settings.path, "Qwen2Tokenizer's normalizer NFC", said.normalizer or "none")


def _same(vocab: Path, path: Path, said: TokenizerJson, vocabulary: Mapping[str, int] | None) -> None:
    added = {token.content for token in said.added_tokens}
    for piece in () if vocabulary is None else sorted((said.vocabulary.keys() | vocabulary.keys()) - added):
        ours, theirs = said.vocabulary.get(piece), None if vocabulary is None else vocabulary.get(piece)
        if ours != theirs:
            raise _disagree(vocab, path, f"id {ours} for {piece!a}", f"id {theirs}")


def _disagree(where: Path, reference: Path, expected: str, got: Any) -> TokenizerError:
    return TokenizerError(
        where,
        f"it agrees with {reference.name}",
        expected=expected,
        got=got,
        next_step="take all files from one place, or delete the wrong one",
    )


def _lines(path: Path) -> str:
    return read_text(path).replace("\r\n", "\n").replace("\r", "\n")


def _listing(directory: Path) -> str:
    if not directory.is_dir():
        return "no such directory"
    return ", ".join(sorted(file.name for file in directory.iterdir())[:8]) or "an empty directory"
