"""A vocabulary in Hugging Face's file formats: as Qwen3 publishes it, and as today's Hugging Face saves it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, decoders, processors

from qwen3_golden import ParityError
from qwen3_reference.vocabulary.training import Merge, model_of, pipeline

PAD, EOS = "<|endoftext|>", "<|im_end|>"
SPECIAL_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>"),
    *("<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)
OTHER_ADDED_TOKENS = (
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
)
"""Added tokens that are not special: neither skipped when text is decoded nor split as a user's words."""

ADDED_TOKENS = (*SPECIAL_TOKENS, *OTHER_ADDED_TOKENS)
"""Qwen3's, in the order of their ids."""


def refuse_existing(directory: Path) -> None:
    """Committed tokenizers are bytes: none is written over."""
    if directory.exists():
        raise ParityError(
            directory,
            "goldens hang on the bytes of a committed tokenizer",
            expected="a directory that does not exist",
            got="an existing one",
            next_step="write to another folder and compare",
        )


def added_token(content: str) -> AddedToken:
    """With Qwen3's flags: taken as it stands, spaces beside it left alone."""
    special = content not in OTHER_ADDED_TOKENS
    return AddedToken(content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=special)


def write_tokenizer_json(
    path: Path, vocabulary: Mapping[str, int], merges: Sequence[Merge], added: Iterable[str]
) -> None:
    """tokenizer.json of the published shape. Added tokens outside `vocabulary` get the ids behind it, in order."""
    tokenizer = pipeline()
    tokenizer.model = model_of(vocabulary, merges)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    settings = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}  # as published; it reads none
    tokenizer.decoder = decoders.ByteLevel(**settings)
    tokenizer.add_tokens([added_token(content) for content in added])
    tokenizer.save(str(path))


def write_legacy_files(directory: Path, vocabulary: Mapping[str, int], merges: Sequence[Merge]) -> None:
    """vocab.json and merges.txt, the older pair that says the same."""
    text = json.dumps(dict(vocabulary), ensure_ascii=False, separators=(",", ":"))
    (directory / "vocab.json").write_text(text + "\n", encoding="utf-8", newline="\n")
    lines = ["#version: 0.2", *(" ".join(merge) for merge in merges)]
    (directory / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def write_config(path: Path, added: Mapping[str, int]) -> None:
    """tokenizer_config.json as Qwen3 publishes it, `added` the added tokens with their ids.

    Hugging Face drops those that it leaves out, whatever tokenizer.json says.
    """
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    config = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(number): {"content": content, **flags, "special": content not in OTHER_ADDED_TOKENS}
            for content, number in added.items()
        },
        "additional_special_tokens": [token for token in added if token not in (PAD, *OTHER_ADDED_TOKENS)],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": EOS,
        "errors": "replace",
        "model_max_length": 32768,
        "pad_token": PAD,
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8", newline="\n")
