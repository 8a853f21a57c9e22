"""NFC, by the tables of the recorded Hugging Face.

Most characters have nothing to do with it, and are left as they are. What is worked on is a *stretch*: a run of those
that may move, change or join another, with the one character before it, which they may join. In a stretch

1. every character is decomposed (full canonical decomposition, Hangul syllables computed);
2. each run of marks is sorted by combining class, marks of equal class as they stood;
3. from left to right, a character joins the last starter (class 0) before it if the two are a pair that composes, and
   nothing that is left between them has its class or a higher one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from .unicode_tables import unicode_tables

Counted = tuple[str, int]
"""A character and its change of the number of characters: 1 put in, 0 in place of one, -n in place of n + 1."""

SYLLABLE, LEAD, VOWEL, TAIL = 0xAC00, 0x1100, 0x1161, 0x11A7
"""Of Hangul: the first syllable, and the first of its parts, where the first tail stands for none."""
LEADS, VOWELS, TAILS = 19, 21, 28

LONGEST_REMEMBERED = 16


def nfc(text: str) -> str:
    """The text in normalisation form C, as Hugging Face computes it."""
    if text.isascii():
        return text
    parts: list[str] = []
    done = 0
    for begin, end in _stretches(text):
        stretch = text[begin:end]
        parts += (
            text[done:begin],
            _remembered(stretch) if len(stretch) <= LONGEST_REMEMBERED else _composed_text(stretch),
        )
        done = end
    return "".join((*parts, text[done:])) if parts else text


def nfc_with_origin(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The same, and for each character of the result its begin and end in `text`, as Hugging Face aligns them.

    Alignment counts characters and does not look at them: the next character of the result belongs to the next one of
    the text that is not used up. What was composed uses up as many as went into it, yet belongs to the first of them
    alone ("e" and an acute: the place of "e"). What was put in belongs to what was used up last, or to (0, 0).
    """
    characters: list[str] = []
    origin: list[tuple[int, int]] = []
    done = 0
    for begin, end in (*_stretches(text), (len(text), len(text))):
        characters += text[done:begin]
        origin += ((at, at + 1) for at in range(done, begin))
        used = begin
        for character, change in _composed(text[begin:end]):
            characters.append(character)
            at = used - 1 if change > 0 else used
            origin.append((at, at + 1) if at >= 0 else (0, 0))
            used += 1 - change
        done = end
    return "".join(characters), origin


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    return ((max(0, run.start() - 1), run.end()) for run in _run().finditer(text))


@cache
def _run() -> re.Pattern[str]:
    """Characters that may move (marks), change (by themselves), or join the one before them (the second of a pair).

    All of those above U+FFFF are taken for such: sets of them are slow in Python's `re`, and they are rare.
    """
    tables = unicode_tables()
    marks, seconds = set(tables.combining_classes), {pair[1] for pair in tables.compositions}
    changing = {character for character in tables.decompositions if _composed_text(character) != character}
    ranges = [
        f"{chr(VOWEL)}-{chr(VOWEL + VOWELS - 1)}",
        f"{chr(TAIL + 1)}-{chr(TAIL + TAILS - 1)}",
        "\U00010000-\U0010ffff",
    ]
    members = "".join([*ranges, *(c for c in sorted(marks | seconds | changing) if c <= "\uffff")])
    return re.compile(f"[{members}][{members}]*")  # not "+": a pattern that begins with one set is searched for faster


def _composed_text(stretch: str) -> str:
    return "".join(character for character, _ in _composed(stretch))


_remembered = lru_cache(maxsize=1 << 14)(_composed_text)


def _composed(stretch: str) -> list[Counted]:
    classes, compositions = unicode_tables().combining_classes, unicode_tables().compositions
    result: list[Counted] = []
    starter, last_class = -1, -1  # the place of the last starter, and the class of what stands behind it; -1: none
    for character, change in _decomposed(stretch):
        own_class = classes.get(character, 0)
        if starter >= 0 and last_class < own_class:
            before, before_change = result[starter]
            joined = compositions.get(before + character) or _joined_hangul(before, character)
            if joined:
                result[starter] = joined, before_change + change - 1
                continue
        starter, last_class = (len(result), -1) if own_class == 0 else (starter, own_class)
        result.append((character, change))
    return result


def _decomposed(stretch: str) -> list[Counted]:
    classes, decompositions = unicode_tables().combining_classes, unicode_tables().decompositions
    result: list[Counted] = []
    marks: list[Counted] = []
    for original in stretch:
        for number, character in enumerate(decompositions.get(original) or _separated_hangul(original)):
            counted = character, min(number, 1)
            if character in classes:
                marks.append(counted)
                continue
            if marks:
                result += sorted(marks, key=lambda mark: classes[mark[0]])
                marks = []
            result.append(counted)
    return result + sorted(marks, key=lambda mark: classes[mark[0]])


def _separated_hangul(character: str) -> str:
    place = ord(character) - SYLLABLE
    if not 0 <= place < LEADS * VOWELS * TAILS:
        return character
    lead, vowel, tail = place // TAILS // VOWELS, place // TAILS % VOWELS, place % TAILS
    return chr(LEAD + lead) + chr(VOWEL + vowel) + (chr(TAIL + tail) if tail else "")


def _joined_hangul(before: str, character: str) -> str:
    """The syllable of a lead and a vowel, or of a syllable without tail and a tail; otherwise empty."""
    first, second = ord(before), ord(character)
    if LEAD <= first < LEAD + LEADS and VOWEL <= second < VOWEL + VOWELS:
        return chr(SYLLABLE + ((first - LEAD) * VOWELS + second - VOWEL) * TAILS)
    syllable = SYLLABLE <= first < SYLLABLE + LEADS * VOWELS * TAILS
    if syllable and (first - SYLLABLE) % TAILS == 0 and TAIL < second < TAIL + TAILS:
        return chr(first + second - TAIL)
    return ""
