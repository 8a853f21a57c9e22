"""What is right to say of a row, read from each draw's `answers.txt`: written from the mechanism, before any answer.

A line `B001 …` says the mechanism. Below it, indented, stand alternatives of how it may be told: regular expressions
with ` & ` between them, all of which must match an answer's name and text.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from detection.blind import DRAWS
from detection.blind.first import words as first
from detection.blind.fourth import words as fourth
from detection.blind.second import words as second
from detection.blind.third import words as third
from detection.draws import Alternative, alternative, says

WORDS = {**first.WORDS, **second.WORDS, **third.WORDS, **fourth.WORDS}


class Answer(NamedTuple):
    """The mechanism in words, and the alternatives: of one of them every expression must match."""

    expect: str
    alternatives: tuple[Alternative, ...]

    def is_right(self, said: str) -> bool:
        """Whether an answer, its name and its text, says the mechanism."""
        return says(self.alternatives, said)


def _alternative(line: str) -> Alternative:
    whole = re.sub("<([A-Z_]+)>", lambda name: WORDS[name[1]], line.strip())
    return alternative(whole, re.IGNORECASE | re.DOTALL)


@cache
def answers() -> dict[str, Answer]:
    """By the row's name."""
    written: dict[str, Answer] = {}
    name = ""
    texts = [Path(__file__).with_name(draw).joinpath("answers.txt").read_text(encoding="utf-8") for draw in DRAWS]
    for line in "".join(texts).splitlines():
        if not line.startswith(" "):
            name, _, text = line.partition(" ")
            written[name] = Answer(text, ())
        else:
            written[name] = Answer(written[name].expect, (*written[name].alternatives, _alternative(line)))
    return written
