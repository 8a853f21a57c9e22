"""Two and three bugs at once: each must be blamed as it is alone, and nobody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from detection.mutants.isolated import run_case
from detection.mutants.judged import by_replay
from detection.mutants.mutant import Mutant
from detection.mutants.patch import Patch
from qwen3_parity.recording.ours.network import EncoderDecoder

CASES = ("encdec/ragged", "encdec/window", "encdec/unrotated", "decoder/ragged_decode", "decoder/window_chunks")
"""Cases with every tap and several steps, on which bugs are combined."""


@dataclass(frozen=True)
class Combination:
    """What came of several bugs in one run: what they are blamed for alone, and what is blamed now."""

    case: str
    names: tuple[str, ...]
    expected: frozenset[str]
    blamed: frozenset[str]

    @property
    def exact(self) -> bool:
        """All of them blamed, nobody else."""
        return self.expected == self.blamed


def drawn(
    mutants: Sequence[Mutant], sizes: Iterable[int], seed: int = 0
) -> Iterator[tuple[str, list[Mutant], frozenset[str]]]:
    """A case, as many random bugs as the next of `sizes` that show there at places of their own, and those places.

    Drawn from a fixed `seed`. A bug that its case does not show, or that cannot run, is drawn again.
    """
    draw = np.random.Generator(np.random.PCG64(seed))
    for size in sizes:
        while True:
            case = str(draw.choice(CASES))
            able = [mutant for mutant in mutants if case in mutant.cases]
            chosen = [able[int(i)] for i in draw.permutation(len(able))[:size]]
            alone = [frozenset(run_case(mutant, case, by_replay).blamed) for mutant in chosen]
            expected = frozenset().union(*alone)
            if all(alone) and len(expected) == sum(map(len, alone)):
                break
        yield case, chosen, expected


def combinations(mutants: Sequence[Mutant], count: int, seed: int = 0) -> Iterator[Combination]:
    """`count` random pairs and triples of `drawn`, run together; where one replaces another's code, none."""
    number = 0
    for case, chosen, expected in drawn(mutants, cycle((2, 3)), seed):
        replaced: list[bool] = []
        outcome = run_case(together(chosen, case, replaced), case, by_replay)
        if any(replaced):
            continue
        yield Combination(case, tuple(mutant.name for mutant in chosen), expected, frozenset(outcome.blamed))
        number += 1
        if number == count:
            return


class _NeedsModelError(Exception):
    """A seed asked for the loaded model."""


def _changes_loading(mutant: Mutant) -> bool:
    """Whether a bug is seeded before the model is loaded."""

    def build() -> EncoderDecoder:
        raise _NeedsModelError

    patch = Patch(build)
    try:
        mutant.seed(patch)
    except _NeedsModelError:
        return False
    finally:
        patch.undo()
    return True


def together(mutants: Sequence[Mutant], case: str, replaced: list[bool]) -> Mutant:
    """All of them as one, those of the loading first; `replaced` gets whether one sets what another one has set."""

    def seed(patch: Patch) -> None:
        for mutant in sorted(mutants, key=_changes_loading, reverse=True):
            before, patch.touched = patch.touched, set()
            mutant.seed(patch)
            replaced.append(bool(before & patch.touched))
            patch.touched |= before

    names = " + ".join(mutant.name for mutant in mutants)
    return Mutant(names, "several at once", seed, frozenset(), frozenset(), (case,))
