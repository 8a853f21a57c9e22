"""Hugging Face's tokenizer of a directory: loaded, refused when it is no byte-level BPE."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from qwen3_golden import refusals
from qwen3_golden.regular_file import refuse_irregular
from qwen3_reference.tokenization.merges import MergeTable, merge_table

_refused = refusals("give the directory of a Qwen3-type tokenizer, as save_pretrained writes it")


@dataclass(frozen=True, eq=False)
class ReferenceTokenizer:
    """Hugging Face's tokenizer, its Rust part, the merges by rank; ids of added tokens, and of the special ones."""

    tokenizer: TokenizersBackend
    backend: Tokenizer
    merges: MergeTable
    added: frozenset[int]
    special: frozenset[int]


def load_tokenizer(directory: Path) -> ReferenceTokenizer:
    """The tokenizer that `AutoTokenizer` makes of `directory`; `ParityError` when there is none, or another kind."""
    if not directory.is_dir():
        raise _refused(directory, "there is no such directory", "a tokenizer's directory", "nothing")
    try:
        refuse_irregular(directory)
        tokenizer: object = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    except Exception as error:  # Hugging Face and its Rust part raise whatever they come by
        got = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise _refused(directory, "Hugging Face cannot load it", "a tokenizer", got) from error
    if not isinstance(tokenizer, TokenizersBackend) or type(tokenizer) not in (Qwen2Tokenizer, TokenizersBackend):
        raise _refused(directory, "it is of another class", "Qwen2Tokenizer", type(tokenizer).__name__)
    backend: Tokenizer = tokenizer.backend_tokenizer
    settings = json.loads(backend.to_str())
    for part, expected, actual in _kind(settings):
        if expected != actual:
            raise _refused(directory, f"its {part} is of another kind", expected, actual)
    missing = sorted(set(ByteLevel.alphabet()) - settings["model"]["vocab"].keys())
    if missing:  # Hugging Face leaves such a byte out without a word
        raise _refused(directory, "its vocabulary lacks bytes", "256 symbols, one for each byte", f"none of {missing}")
    added = {item["id"]: item["content"] for item in settings["added_tokens"]}
    for number, content in added.items():
        if [token.id for token in backend.model.tokenize(content)] == [number]:
            raise _refused(directory, "merges give the id of an added token", f"{number} for {content!a} alone", "both")
    table = merge_table(directory, [_pair(merge) for merge in settings["model"]["merges"]])
    special = frozenset(item["id"] for item in settings["added_tokens"] if item["special"])
    return ReferenceTokenizer(tokenizer, backend, table, frozenset(added), special)


def _kind(settings: dict[str, object]) -> list[tuple[str, object, object]]:
    """What the recorded stages presuppose of tokenizer.json: what, expected, got."""

    def part(name: str) -> dict[str, object]:
        value = settings[name]
        return value if isinstance(value, dict) else {}

    model, steps = part("model"), part("pre_tokenizer").get("pretokenizers") or []
    assert isinstance(steps, list)
    last = steps[-1] if steps else {}
    switches = ("dropout", "unk_token", "byte_fallback", "ignore_merges")
    return [
        ("model", "BPE", model.get("type")),
        ("normalizer", "NFC", part("normalizer").get("type", "NFC")),
        ("pre-tokenizer", ["Split", "ByteLevel"], [step.get("type") for step in steps]),
        ("byte-level pre-tokenizer", (False, False), (last.get("add_prefix_space"), last.get("use_regex"))),
        ("decoder", "ByteLevel", part("decoder").get("type")),
        ("model's switches", [], [name for name in switches if model.get(name)]),
    ]


def _pair(merge: str | list[str]) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right
