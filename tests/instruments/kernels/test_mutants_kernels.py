"""Bugs of kernels: each is caught, blamed on its own op and named, and the closed half stays closed."""

from __future__ import annotations

import pytest
import torch
from click.testing import CliRunner

from detection.kernels import catalogue, is_open
from detection.kernels.answers import ANSWERS
from detection.kernels.command import kernels
from detection.kernels.seeds import CONTEXT, bug, context, probabilities, replaced
from detection.kernels.softmax import online, softmax
from detection.mutants.isolated import run_case
from detection.mutants.judged import by_diagnosis

FEW = (
    *("scores-dim-tail-4", "context-odd-query", "online-accumulator", "split-exchanged", "query-rows-tail-8"),
    *("norm-width-16", "silu-hard", "residual-tail-16", "mask-last-tile"),
)


def test_there_are_sixty_bugs_of_kernels_and_thirty_at_least_of_each_half() -> None:
    names = [entry.name for entry in catalogue()]
    assert len(names) >= 60 and len(set(names)) == len(names)
    assert min(sum(map(is_open, names)), len(names) - sum(map(is_open, names))) >= 30


@pytest.mark.sample(every=9)
@pytest.mark.parametrize("name", FEW)
def test_a_bug_of_a_kernel_is_blamed_on_its_op_alone(name: str) -> None:
    mutant = next(entry for entry in catalogue() if entry.name == f"kernel/{name}")
    outcome = run_case(mutant, mutant.cases[0])
    assert outcome.caught and outcome.exactly_blamed, outcome


NAMED = (
    *("scores-keys-contiguous", "online-accumulator", "query-rows-tail-8", "norm-width-16"),
    pytest.param("silu-crude-exp", marks=pytest.mark.slow),  # a fit comes behind two mistakes at once
)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", NAMED)
def test_a_bug_of_a_kernel_is_named_by_what_it_does(name: str) -> None:
    mutant = next(entry for entry in catalogue() if entry.name == f"kernel/{name}")
    assert is_open(mutant.name)
    outcome = run_case(mutant, mutant.cases[0], by_diagnosis)
    assert set((outcome.diagnoses or {}).values()) and set((outcome.diagnoses or {}).values()) <= mutant.named, outcome


def test_every_bug_of_a_kernel_has_an_answer_and_none_is_left_over() -> None:
    assert {entry.name.partition("/")[2] for entry in catalogue()} == set(ANSWERS)


@pytest.mark.parametrize(
    "seed",
    [replaced(context, online(4, True, True)), replaced(probabilities, softmax(torch.exp))],
    ids=["online", "whole"],
)
def test_the_same_kernels_without_a_bug_pass(seed: object) -> None:
    sound = bug("sound", "", seed, CONTEXT)  # type: ignore[arg-type]
    assert not run_case(sound, "encdec/ragged").caught


@pytest.mark.slow
def test_of_the_closed_half_the_command_prints_sums_alone() -> None:
    closed = next(entry for entry in catalogue() if not is_open(entry.name))
    result = CliRunner().invoke(kernels, [closed.name, "--blame-only"])
    assert closed.name not in result.output and closed.says not in result.output
    assert "closed: 1 mutants, 1 caught" in result.output
