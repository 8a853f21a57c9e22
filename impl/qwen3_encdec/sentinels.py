"""The user's tokenizer: Hugging Face's, with sentinels whose ids are the rows that the embedding has for them."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig

_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def sentinel_name(index: int) -> str:
    """How T5 writes the sentinel of an index, counted from 0."""
    return f"<extra_id_{index}>"


def add_sentinels(source: str | Path, embedding_rows: int, num_sentinel_tokens: int = 100) -> PreTrainedTokenizerBase:
    """The tokenizer of a directory or hub id with `num_sentinel_tokens` sentinels, sentinel i with the id
    `embedding_rows + i`; `embedding_rows` is the `vocab_size` of the source's config, padding rows included.

    The ids between the source's tokens and the sentinels belong to nobody and no text gives them. Save it with
    `save_pretrained`, load it with `AutoTokenizer`. `ValueError` when the source has no byte-level BPE, has ids beyond
    its embedding, or has such names already.
    """
    if embedding_rows < 1 or num_sentinel_tokens < 0:
        raise ValueError(
            f"embedding_rows = {embedding_rows}, num_sentinel_tokens = {num_sentinel_tokens}: expected at least 1 and 0"
        )
    with TemporaryDirectory() as folder:
        AutoTokenizer.from_pretrained(source).save_pretrained(folder)
        path, settings = Path(folder, "tokenizer.json"), Path(folder, "tokenizer_config.json")
        if not path.is_file():
            raise ValueError(f"{source}: it has no fast tokenizer, so sentinels cannot be given their ids")
        content = json.loads(path.read_text(encoding="utf-8"))
        _extend(content, source, embedding_rows, num_sentinel_tokens)
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        said = json.loads(settings.read_text(encoding="utf-8"))
        said |= {"num_sentinel_tokens": num_sentinel_tokens, "first_sentinel_id": embedding_rows}
        settings.write_text(json.dumps(said, ensure_ascii=False), encoding="utf-8")
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    check_sentinels(tokenizer, embedding_rows, num_sentinel_tokens)
    return tokenizer


def _extend(content: dict[str, Any], source: str | Path, first: int, count: int) -> None:
    """Write the sentinels into a parsed `tokenizer.json`.

    Every added token also becomes an entry of the vocabulary with its id: Hugging Face numbers those that are not anew,
    behind the vocabulary's size, and that size grows with the sentinels.
    """
    if content["model"].get("type") != "BPE":
        raise ValueError(f"{source}: model type {content['model'].get('type')!r} in tokenizer.json; expected 'BPE'")
    vocabulary, added = content["model"]["vocab"], content["added_tokens"]
    vocabulary |= {token["content"]: token["id"] for token in added}
    if (largest := max(vocabulary.values(), default=-1)) >= first:
        raise ValueError(
            f"{source}: id {largest} has no row in an embedding of {first} rows; "
            "embedding_rows must be the vocab_size of the checkpoint's config"
        )
    names = [sentinel_name(index) for index in range(count)]
    if taken := [name for name in names if name in vocabulary]:
        raise ValueError(f"{source}: it already has {taken[0]} (id {vocabulary[taken[0]]})")
    vocabulary |= {name: first + index for index, name in enumerate(names)}
    added += [{"id": vocabulary[name], "content": name} | _FLAGS for name in names]


def check_sentinels(tokenizer: PreTrainedTokenizerBase, first_sentinel_id: int, num_sentinel_tokens: int) -> None:
    """`ValueError` unless sentinel i is the id `first_sentinel_id + i`, in both directions and in text."""
    vocabulary: Mapping[str, int] = tokenizer.get_vocab()
    names = [sentinel_name(index) for index in range(num_sentinel_tokens)]
    for index, name in enumerate(names):
        expected = first_sentinel_id + index
        ids = tokenizer.encode(f"a {name} b", add_special_tokens=False)
        if vocabulary.get(name) != expected or expected not in ids or tokenizer.convert_ids_to_tokens(expected) != name:
            raise ValueError(
                f"the tokenizer reads {name} as {vocabulary.get(name, 'plain text')}; expected the id {expected}, "
                "its embedding row; make the tokenizer with add_sentinels for this checkpoint"
            )


def check_agreement(
    tokenizer: PreTrainedTokenizerBase, config: Qwen3EncoderDecoderConfig, model: nn.Module | None = None
) -> None:
    """`ValueError` naming the first thing in which a tokenizer, a config and (where given) a model's weights disagree.

    Sentinel ids, a row for every id, the ids of padding and end of sequence, the rows of the embedding and of the head.
    """
    check_sentinels(tokenizer, config.sentinel_start, config.num_sentinel_tokens)
    name, largest = max(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if largest >= config.vocab_size:
        raise ValueError(f"the token {name!r} has the id {largest}; vocab_size = {config.vocab_size} has no row for it")
    for role in ("pad", "eos"):
        ours, theirs = getattr(config, f"{role}_token_id"), getattr(tokenizer, f"{role}_token_id")
        accepted = ours if isinstance(ours, list) else [ours]
        if ours is not None and theirs is not None and theirs not in accepted:
            raise ValueError(f"{role}_token_id is {ours} in the config and {theirs} in the tokenizer")
    if model is None:
        return
    weights = {name: p for name, p in model.named_parameters() if name.endswith(("shared.weight", "lm_head.weight"))}
    for name, weight in weights.items():
        if weight.shape[0] != config.vocab_size:
            raise ValueError(f"{name} has {weight.shape[0]} rows; vocab_size = {config.vocab_size}, sentinels included")
