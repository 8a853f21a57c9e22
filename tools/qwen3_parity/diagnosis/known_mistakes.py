"""What a mistake's name means: looked up where the library thinks of it, on committed goldens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pattern_of, read
from qwen3_parity.blame.values import Values
from qwen3_parity.diagnosis.known_words import EDIT_FIX, EDITS, FITTED, STRUCTURE_FIX, STRUCTURES
from qwen3_parity.mistakes.by_op import LIBRARY
from qwen3_parity.mistakes.observed import every_guess
from qwen3_parity.text.table import TABLE

_CASES = (
    *("encoder/ragged", "decoder/plain", "encdec/ragged", "decoder/yarn_stated", "encdec/qwen2"),
    *("generation/sample", "generation/greedy", "generation/merged", "training/causal", "classic/bert"),
    *("classic/pre_norm", "llama/ragged_decode", "encdec/shorter_request"),
)
"""Where the library is asked, in this order; together they have every op that it knows."""


Weights = Callable[[Recording, Path], Mapping[str, Array]]
"""The parameters of a golden's case, from the folder of checkpoints."""


@dataclass(frozen=True)
class Known:
    """A mistake: the ops, or the stage of a tokenizer, that it is made in; what is done, in one or several forms.

    `golden`: the case whose numbers stand in the words, empty where none do.
    """

    name: str
    where: tuple[str, ...]
    says: tuple[str, ...]
    fix: str
    golden: str = ""


def known_mistake(name: str, weights_of: Weights) -> Known | None:
    """The mistake of a name, None where there is none; the search ends at the first golden that shows it."""
    if name in EDITS:
        return Known(name, ("a golden's graph",), (EDITS[name],), EDIT_FIX)
    if name in STRUCTURES:
        return Known(name, (), (STRUCTURES[name],), STRUCTURE_FIX)
    if name in FITTED:  # of no committed golden: nobody needs to ask
        return Known(name, (), FITTED[name][:1], FITTED[name][1])
    if (known := _of_texts().get(name)) is not None:
        return known
    for case in _CASES if "." in name else ():
        if (known := _of_case(case, weights_of).get(name)) is not None:
            return known
    return None


def mistake_names(weights_of: Weights) -> list[str]:
    """Every name that `known_mistake` knows, sorted; the whole library is asked."""
    words = (EDITS, STRUCTURES, FITTED)
    return sorted({*chain(*words), *_of_texts(), *chain.from_iterable(_of_case(case, weights_of) for case in _CASES)})


@cache
def _of_texts() -> dict[str, Known]:
    ways = ((stage, wrong) for stage, table in TABLE.items() for wrong in table.wrong)
    return _together((wrong.name, stage, wrong.says, wrong.fix) for stage, wrong in ways)


@cache
def _of_case(case: str, weights_of: Weights) -> dict[str, Known]:
    return {name: replace(known, golden=case) for name, known in _together(_thought_of(case, weights_of)).items()}


def _thought_of(case: str, weights_of: Weights) -> Iterator[tuple[str, str, str, str]]:
    """Name, op, what is said and what to do, of all that the library thinks of at each kind of place of a golden."""
    golden = read(GOLDEN_ROOT / "cases" / f"{case}.pb")
    values = Values(golden, weights_of(golden, GOLDEN_ROOT / "checkpoints"), golden)
    patterns = set[str]()
    for tensor in golden:
        pattern = pattern_of(tensor.info.name)
        site = None if pattern in patterns else values.site(*tensor.key)
        if site is None:
            continue
        patterns.add(pattern)
        op = site.place.op
        with np.errstate(all="ignore"), every_guess():
            for library in LIBRARY.get(op, ()):
                yield from ((mistake.name, op, mistake.says, mistake.fix) for mistake in library(site))


def _together(rows: Iterator[tuple[str, str, str, str]]) -> dict[str, Known]:
    """Rows of one name as one mistake, in the order in which they came."""
    named: dict[str, list[tuple[str, str, str]]] = {}
    for name, *rest in rows:
        named.setdefault(name, []).append((rest[0], rest[1], rest[2]))
    known = {}
    for name, forms in named.items():
        ops, says, fixes = zip(*forms, strict=True)
        known[name] = Known(name, tuple(dict.fromkeys(ops)), tuple(dict.fromkeys(says)), fixes[0])
    return known
