"""Byte-level BPE trained by Hugging Face behind Qwen's normaliser and regex: the merges alone, in order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

Merge = tuple[str, str]

BYTE_SYMBOLS = tuple(sorted(pre_tokenizers.ByteLevel.alphabet()))
"""The printable character of each byte, by code point."""


def pipeline() -> Tokenizer:
    """Qwen's normaliser and pre-tokeniser before a BPE without any vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated")
    symbols = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, symbols])
    return tokenizer


def train(texts: Sequence[str], count: int) -> list[Merge]:
    """At most `count` merges, the most frequent pair first; pairs that occur once are no merges."""
    tokenizer = pipeline()
    trainer = trainers.BpeTrainer(
        vocab_size=len(BYTE_SYMBOLS) + count,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=list(BYTE_SYMBOLS),
    )
    tokenizer.train_from_iterator(texts, trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def pieces_of(merges: Sequence[Merge]) -> list[str]:
    """The byte symbols, then what each merge makes."""
    return [*BYTE_SYMBOLS, *("".join(merge) for merge in merges)]


def model_of(vocabulary: Mapping[str, int], merges: Sequence[Merge]) -> models.BPE:
    """Hugging Face's BPE, its other settings as Qwen's file has them."""
    return models.BPE(vocab=dict(vocabulary), merges=list(merges), continuing_subword_prefix="", end_of_word_suffix="")


def symbols_of(text: str) -> str:
    """The byte symbols of a text, not normalised."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return "".join(piece for piece, _ in byte_level.pre_tokenize_str(text))
