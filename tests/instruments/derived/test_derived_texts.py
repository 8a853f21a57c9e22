"""Named mistakes of tokenizers seed themselves: each is caught, blamed on its stage alone, answered by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice

import pytest

from detection.derived.texts import Answer, answer, first_names
from detection.mutants.not_applicable import OF_TEXT
from qwen3_parity.text.table import TABLE

SILENT = {
    "merges.joined_keys": "no two merges of the tiny tokenizer make the same piece of other halves",
    "ids.sixteen_bits": "the tiny tokenizer has fewer than 32768 ids",
    "symbols.normalized": "the text is normalised before it is cut, and pieces of it stay as they are",
    "batch.pad_is_unk": "Qwen's tokenizers have no unknown token",
    "batch.pad_is_bos": "Qwen's tokenizers have no token that begins a text",
}
"""Mistakes that change nothing in any golden, and why."""


MERGED_WITHOUT_RANKS = {
    *("merges.longest_match", "merges.longest_match_from_the_right", "merges.fewest_pieces", "merges.whole_word"),
}
"""Pieces that no merges lead to: the ids follow from none, and are blamed, too."""

EVERY = {
    wrong.name: [w for w in stage.wrong if w.name == wrong.name] for stage in TABLE.values() for wrong in stage.wrong
}


@pytest.fixture(scope="module", params=["sample", pytest.param("all", marks=pytest.mark.slow)])
def answers(request: pytest.FixtureRequest) -> Mapping[str, Sequence[Answer]]:
    """Of each name (of a sample: of every sixtieth) all ways that show, or the first one."""
    chosen = list(EVERY)[:: 1 if request.param == "all" else 60]
    shown = {name: (reply for way in EVERY[name] if (reply := answer(way)) is not None) for name in chosen}
    return {name: list(islice(replies, None if request.param == "all" else 1)) for name, replies in shown.items()}


def test_a_mistake_of_tokenizers_that_shows_is_caught(answers: Mapping[str, Sequence[Answer]]) -> None:
    assert not [name for name, replies in answers.items() if not all(reply.caught for reply in replies)]


def test_a_mistake_of_tokenizers_is_blamed_on_its_stage_alone(answers: Mapping[str, Sequence[Answer]]) -> None:
    blamed = {name: {stage for reply in replies for stage in reply.names} for name, replies in answers.items()}
    alone = {name: stages - ({"ids"} if name in MERGED_WITHOUT_RANKS else set()) for name, stages in blamed.items()}
    assert {name: stages for name, stages in alone.items() if stages - {name.split(".")[0]}} == {}


def test_a_mistake_of_tokenizers_is_answered_by_its_name(answers: Mapping[str, Sequence[Answer]]) -> None:
    stages = {name: name.split(".")[0] for name in answers}
    assert not [
        n for n, replies in answers.items() if not all(n in reply.names.get(stages[n], ()) for reply in replies)
    ]


def test_the_mistakes_of_tokenizers_that_never_show_are_listed_with_a_reason(
    answers: Mapping[str, Sequence[Answer]],
) -> None:
    assert {name for name, replies in answers.items() if not replies} == set(SILENT) & set(answers)


SHOWN = " ".join(EVERY.keys() - SILENT.keys())


@pytest.mark.sample(every=9)
@pytest.mark.parametrize(
    "names",
    [*OF_TEXT.values(), pytest.param(SHOWN, marks=pytest.mark.slow)],
    ids=[*OF_TEXT, "every mistake that shows"],
)
def test_a_mistake_of_tokenizers_comes_first_in_a_whole_golden(names: str) -> None:
    assert not [n for n in names.split() if n not in chain.from_iterable(map(first_names, EVERY[n]))]
