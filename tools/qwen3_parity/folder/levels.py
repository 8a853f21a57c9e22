"""How far a port has come: levels, each a list of cases that it must be at parity with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from qwen3_golden.contract import released_cases
from qwen3_parity.folder.check import Folder

_GREEDY = (
    "decoder/generation",
    "encdec/second_request",
    "encdec/shorter_request",
    "generation/equal_logits",
    "generation/greedy",
    "generation/merged",
    "generation/small_margins",
)
LEVELS: Mapping[str, Sequence[str]] = {
    "reader": ("plumbing/*",),
    "ops": ("op/[!n]*",),
    "causal": (
        "block/causal",
        "decoder/head_dim_64",
        "decoder/multiples_of_256",
        "decoder/plain",
        "decoder/plain_two_rows",
        "decoder/yarn_*",
        "long/position_32768",
    ),
    "cache": (
        "decoder/bfloat16",
        "decoder/head_dim_64_ragged",
        "decoder/inputs_embeds",
        "decoder/mask_4d",
        "decoder/ragged_decode",
        "decoder/window_*",
        "long/deep",
        "long/last_rows",
    ),
    "encoder": ("block/bidirectional", "encoder/*", "long/encoder_129"),
    "encoder-decoder": ("encdec/[!s]*", "long/position_4096", "models/*"),
    "generation-greedy": _GREEDY,
    "generation": (
        *_GREEDY,
        "generation/penalty_padded",
        "generation/sample",
        "op/next_token_probs_*",
    ),
    "training": ("training/*",),
    "llama": ("llama/*",),
    "classic": ("classic/*",),
    "tokenizer": ("tokenization/*",),
}
"""Globs over the names of the committed cases, by level, in the order in which a port is built. `causal` decodes token
by token; `cache` adds padding, windows, prompts in chunks, masks and hidden states that are given. `generation` is
`generation-greedy` with filters. `llama` and `classic` are other networks than Qwen3. `model/*` is of no
level: each of those is a network of its own, and nobody ports all of them."""


def cases_of(levels: Collection[str], names: Sequence[str]) -> list[str]:
    """The cases among `names` that these levels ask for, each once, in the order of `names`."""
    globs = [glob for level in levels for glob in LEVELS[level]]
    return [name for name in names if any(fnmatchcase(name, glob) for glob in globs)]


@dataclass(frozen=True)
class Reached:
    """A level with its cases: those at parity, those that are red, and those that were not delivered or refused."""

    level: str
    parity: Sequence[str]
    red: Sequence[str]
    missing: Sequence[str]

    @property
    def reached(self) -> bool:
        """Whether every case of the level is at parity; a partial verdict is none."""
        return bool(self.parity) and not self.red and not self.missing

    @property
    def of(self) -> int:
        """The number of cases that the level asks for."""
        return len(self.parity) + len(self.red) + len(self.missing)


def level_of(name: str) -> str:
    """The first level that asks for a case, empty where none does."""
    return next((level for level in LEVELS if cases_of([level], [name])), "")


def reached(folder: Folder) -> list[Reached]:
    """Every level of which a case was judged, in order."""
    return [level for level in _levels(folder) if level.parity or level.red]


def next_level(folder: Folder) -> Reached | None:
    """The first level that is not reached, begun or not; None where all are."""
    return next((level for level in _levels(folder) if not level.reached), None)


def _levels(folder: Folder) -> Iterator[Reached]:
    """Of the cases of the release: fewer goldens at hand, or others, make no level smaller."""
    names = released_cases()
    judged = {verdicts.case.name: verdicts for verdicts in folder.results}
    good = {
        name
        for name, verdicts in judged.items()
        if verdicts.word == "parity" and verdicts.contract and verdicts.contract.released
    }
    for level in LEVELS:
        cases = cases_of([level], names)
        red = [name for name in cases if name in judged and name not in good]
        missing = [name for name in cases if name not in judged]
        yield Reached(level, [name for name in cases if name in good], red, missing)
