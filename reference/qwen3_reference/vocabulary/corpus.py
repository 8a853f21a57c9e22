"""What the vocabulary is trained on: texts as they stand, and common words in shuffled order."""

from __future__ import annotations

from pathlib import Path
from random import Random

from qwen3_golden import ParityError

WORDS = "common_words.txt"
"""One language a line, its words between spaces, or between "|" where it is written without spaces."""

SHUFFLES = 6
SEED = 25


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
    words = texts.pop(WORDS, "")
    return [*texts.values(), *shuffled_words(words)]


def shuffled_words(lines: str) -> list[str]:
    """Each line some times over in another order, so that each of its words occurs as often as any other."""
    draw = Random(SEED)
    texts = []
    for line in lines.splitlines():
        between, joined = ("|", "") if "|" in line else (" ", " ")
        words = line.split(between)
        for _ in range(SHUFFLES):
            draw.shuffle(words)
            texts.append(joined.join(words))
    return texts
