"""The two committed tokenizers: `tiny`, and `tiny-sentinels`, which has sentinels behind its padded embedding rows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random

from transformers import AutoTokenizer

from qwen3_golden import ParityError
from qwen3_reference.vocabulary.files import (
    ADDED_TOKENS,
    refuse_existing,
    write_config,
    write_legacy_files,
    write_tokenizer_json,
)
from qwen3_reference.vocabulary.loudness import TEMPTING, idle_entries, merges_across, numbered
from qwen3_reference.vocabulary.training import Merge, pieces_of, train

MERGES = 4000
SENTINELS = 12
ROW_MULTIPLE = 64
"""Embedding tables are padded to a multiple of this many rows."""
SEED = 71
"""Of the ids. With this one, ranks taken from ids change "brutalist", ".:.:", "ababab" and "aaaaa"."""
TEMPLATE = Path(__file__).with_name("chat_template.jinja")
_WORDS = "common_words.txt"
"""One language a line, its words between spaces, or between "|" where it is written without spaces."""
_SHUFFLES = 6
_SHUFFLE_SEED = 25


def read_corpus(directory: Path) -> list[str]:
    """The texts of `directory`/*.txt by name, line ends as they stand; `ParityError` when there are none."""
    texts = {path.name: path.read_bytes().decode("utf-8") for path in sorted(directory.glob("*.txt"))}
    if not texts:
        raise ParityError(
            directory,
            "there is nothing to train on",
            expected="text files, *.txt",
            got="none",
            next_step="give the corpus folder: golden/tokenizers/corpus",
        )
    words = texts.pop(_WORDS, "")
    return [*texts.values(), *_shuffled_words(words)]


def _shuffled_words(lines: str) -> list[str]:
    """Each line some times over in another order, so that each of its words occurs as often as any other."""
    draw = Random(_SHUFFLE_SEED)
    texts = []
    for line in lines.splitlines():
        between, joined = ("|", "") if "|" in line else (" ", " ")
        words = line.split(between)
        for _ in range(_SHUFFLES):
            draw.shuffle(words)
            texts.append(joined.join(words))
    return texts


def make_vocabulary(corpus: Path) -> tuple[dict[str, int], list[Merge]]:
    """Pieces with their ids, by id, added tokens left out; merges by rank."""
    merges = train(read_corpus(corpus), MERGES)
    merges += merges_across(merges)
    merges += TEMPTING
    return numbered([*pieces_of(merges), *idle_entries(merges)], SEED), merges


def padded_rows(size: int) -> int:
    """The rows of an embedding table for `size` ids: there is always some padding."""
    return (size // ROW_MULTIPLE + 1) * ROW_MULTIPLE


def qwen_tokens(vocabulary: Mapping[str, int]) -> dict[str, int]:
    """Qwen3's added tokens with the ids that follow on the vocabulary's."""
    return {content: len(vocabulary) + index for index, content in enumerate(ADDED_TOKENS)}


def sentinel_tokens(vocabulary: Mapping[str, int]) -> dict[str, int]:
    """The sentinels with the ids of the rows behind the padded table."""
    first = padded_rows(len(vocabulary) + len(ADDED_TOKENS))
    return {f"<extra_id_{index}>": first + index for index in range(SENTINELS)}


def write_both(corpus: Path, out: Path) -> None:
    """`out`/tiny and `out`/tiny-sentinels; `ParityError` when one exists or the corpus is empty."""
    tiny, sentinels = out / "tiny", out / "tiny-sentinels"
    for directory in (tiny, sentinels):
        refuse_existing(directory)
    vocabulary, merges = make_vocabulary(corpus)
    added = qwen_tokens(vocabulary)
    tiny.mkdir(parents=True)
    write_tokenizer_json(tiny / "tokenizer.json", vocabulary, merges, added)
    write_legacy_files(tiny, vocabulary, merges)
    write_config(tiny / "tokenizer_config.json", added)
    shutil.copyfile(TEMPLATE, tiny / TEMPLATE.name)

    # Added tokens are entries of the vocabulary here: without them Hugging Face would number the added tokens by the
    # size of the vocabulary, and close the gap.
    added |= sentinel_tokens(vocabulary)
    with tempfile.TemporaryDirectory() as scratch:  # saved by Hugging Face itself: the other shape of the files
        raw = Path(scratch)
        write_tokenizer_json(raw / "tokenizer.json", {**vocabulary, **added}, merges, added)
        write_config(raw / "tokenizer_config.json", added)
        shutil.copyfile(TEMPLATE, raw / TEMPLATE.name)
        tokenizer = AutoTokenizer.from_pretrained(raw)
        tokenizer.init_kwargs["local_files_only"] = False  # HF_HUB_OFFLINE forces it, and it would be saved
        tokenizer.save_pretrained(sentinels)
