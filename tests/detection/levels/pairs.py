"""`python -m detection.levels.pairs`: two mistakes at once, of different ops and of one; are both named?"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np

from detection.command import Command
from detection.derived.derive import Seed, computed, possible, seeds, shows
from detection.derived.seed import Case, case_of, seeded
from detection.levels.thinned import thinned
from detection.mutants import catalogue
from detection.mutants.combined import CASES, drawn, together
from detection.mutants.isolated import CHECKPOINTS, golden_of, record_mutant
from qwen3_golden import ParityError, Recording, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.mistakes.hypothesis import Hypothesis, both
from qwen3_parity.recording.tap_sets import TAP_SETS


@dataclass(frozen=True)
class Pair:
    """Two mistakes in one recording. `names`: the names that are right, of each."""

    case: str
    mistakes: tuple[str, str]
    names: tuple[Collection[str], Collection[str]]
    candidate: Recording


def across(seed: int) -> Iterator[Pair]:
    """Random bugs of our implementation, two at a time, each seen alone at places that the other one leaves right."""
    networks = [mutant for mutant in catalogue() if not (mutant.of_tokenizer or mutant.of_weights)]
    for case, chosen, _ in drawn(networks, repeat(2), seed):
        replaced: list[bool] = []
        with TemporaryDirectory() as folder:
            path = Path(folder) / "pair.pb"
            try:
                record_mutant(together(chosen, case, replaced), golden_of(case), path)
            except ParityError:
                continue
            if any(replaced):
                continue
            first, second = chosen
            yield Pair(case, (first.name, second.name), (first.named, second.named), read(path))


def inside(seed: int) -> Iterator[Pair]:
    """Random mistakes of the library, two at a time in one op, where one is a changed input that the other is made on.

    Both are seen and named alone there, whatever the name: the right ones are what is said of each alone. No single
    mistake makes the same numbers.
    """
    draw = np.random.Generator(np.random.PCG64(seed))
    while True:
        case = str(draw.choice(CASES))
        pattern = str(draw.choice(case_of(case).patterns))
        alike = [mistake for mistake in seeds(case) if mistake.pattern == pattern and not mistake.hypothesis.everywhere]
        if len({mistake.name for mistake in alike}) < 2:
            continue
        first, second = (alike[int(i)] for i in draw.permutation(len(alike))[:2])
        pair = _in_one_op(first, second)
        if pair is not None:
            yield pair


def _in_one_op(first: Seed, second: Seed) -> Pair | None:
    compute = both(first.hypothesis.compute, second.hypothesis.compute)
    if first.name == second.name or compute is None or not all(possible(x) and shows(x) for x in (first, second)):
        return None
    said = [_said(x) for x in (first, second)]
    if not all(said) or said[0][0] == said[1][0]:
        return None
    case = case_of(first.case)
    pair = Hypothesis("", "", "", compute)
    site = next(case.sites(first.pattern))
    results = [x for x in (computed(y, site) for y in (pair, first.hypothesis, second.hypothesis)) if x is not None]
    if len(results) < 3 or any(np.allclose(results[0][0], x[0], equal_nan=True) for x in results[1:]):
        return None  # one of them hides the other
    if _one_is_enough(case, pair, first.pattern):
        return None
    candidate = seeded(case, {first.pattern: lambda site: computed(pair, site)})
    names = {first.name, *said[0]}, {second.name, *said[1]}
    return Pair(first.case, (f"{first.pattern}: {first.name}", second.name), names, candidate)


def _said(seed: Seed) -> Sequence[str]:
    """The names of a mistake made alone: the first one, then others that are no rarer and explain every wrong tap."""
    case = case_of(seed.case)
    try:
        candidate = seeded(case, seed.wrong)
    except ParityError:
        return ()
    with np.errstate(all="ignore"):
        faults = diagnose(case.golden, candidate, case.weights).faults
    names = [name for fault in faults for name in (fault.name,) if name]
    every = [explanation for fault in faults for explanation in fault.explanations]
    return names + [x.name for x in every if x.whole == x.of and not x.contradicted and x.rank <= seed.hypothesis.rank]


def _one_is_enough(case: Case, pair: Hypothesis, pattern: str) -> bool:
    """Whether one mistake alone makes the numbers of two, wherever both can be made: nobody can tell it from them."""
    sites = [(site, result[0]) for site in case.sites(pattern) if (result := computed(pair, site)) is not None]
    alike = [seed.hypothesis for seed in seeds(case.name) if seed.pattern == pattern]
    for site, y in sites:
        results = [(hypothesis, computed(hypothesis, site)) for hypothesis in alike]
        alike = [
            hypothesis
            for hypothesis, result in results
            if result is not None and np.allclose(result[0], y, 1e-6, 0, equal_nan=True)
        ]
    return bool(alike)


def named(pair: Pair, diagnosis: Diagnosis) -> bool:
    """Whether the first names of the faults hold a right one of each mistake."""
    said = {name for fault in diagnosis.faults for name in _first(fault)}
    return all(said & set(names) for names in pair.names)


def _first(fault: Explained) -> Sequence[str]:
    names = [
        *(explanation.name for explanation in fault.explanations),
        *(finding.name for finding in fault.numbers),
        "",
    ]
    return names[0].split("+") if names[0] else ()


@click.command(cls=Command)
@click.option("--across", "far", type=click.IntRange(0), default=40, show_default=True, help="Pairs of different ops.")
@click.option("--inside", "near", type=click.IntRange(0), default=20, show_default=True, help="Pairs in one op.")
@click.option("--level", "levels", multiple=True, type=click.Choice(list(TAP_SETS)), default=("all", "modules"))
@click.option("--seed", default=0, show_default=True, help="Which pairs are drawn.")
def pairs(far: int, near: int, levels: tuple[str, ...], seed: int) -> None:
    """Make two mistakes at once, draw them anew from a seed, and ask for the names of both."""
    for kind, count, make in (("across ops", far, across), ("inside one op", near, inside)):
        hits = dict.fromkeys(levels, 0)
        for pair in islice(make(seed), count):
            golden = golden_of(pair.case)
            for level in levels:
                weights = weights_of(pair.candidate, CHECKPOINTS)
                diagnosis = diagnose(golden, thinned(pair.candidate, level), weights)
                hits[level] += named(pair, diagnosis)
                if not named(pair, diagnosis):
                    said = "; ".join("+".join(_first(fault)) or "nothing" for fault in diagnosis.faults)
                    click.echo(f"{level} {pair.case}: {' and '.join(pair.mistakes)}: {said}")
        for level in levels:
            click.echo(f"{kind}, {level}: both named in {hits[level]} of {count}")
    sys.exit(0)


if __name__ == "__main__":
    pairs(prog_name="python -m detection.levels.pairs")
