"""What a run declares is matched by the table, globs included; a name that nothing has is an error with the nearest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, Recording, pattern_of, pb, read
from qwen3_parity import check
from qwen3_parity.recording.record import Tap, record

OUTPUT = "encoder.layers.{layer}.output"


@pytest.fixture(scope="module")
def golden() -> Recording:
    return read(GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb")


def declaring(golden: Recording, declared: Sequence[str], *delivered: str) -> Recording:
    """The golden's inputs and its taps of some patterns, under a run that declares what is asked for."""
    run = pb.Run(arithmetic=golden.run.arithmetic, backend=pb.FOREIGN, materialised=declared)
    tensors = [t for t in golden if t.info.op == "input" or pattern_of(t.info.name) in delivered]
    return replace(golden, run=run, tensors=tensors)


def repeating(golden: Recording, declared: Sequence[str]) -> Callable[..., Callable[..., None]]:
    """A factory of a model that hands over all of the golden's taps, and says what it shows."""

    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
        def runner(case: pb.Case, inputs: Mapping[str, Array], tap: Tap, records: Callable[[str], bool]) -> None:
            for t in golden:
                if t.info.op != "input":
                    tap(t.info.name, t.info.step, t.array)

        runner.run = pb.Run(arithmetic=pb.ARITHMETIC_F32, materialised=declared)  # type: ignore[attr-defined]
        return runner

    return build


@pytest.mark.parametrize("glob", ["encoder.layers.*.output", "*.output", OUTPUT, "encoder.layers.{layer}.outpu?"])
def test_a_glob_declares_what_it_matches(glob: str, golden: Recording) -> None:
    verdicts = check(golden, declaring(golden, [glob, "encoder.norm"], OUTPUT, "encoder.norm"))
    assert (verdicts.word, verdicts.problems) == ("parity", [])


@pytest.mark.parametrize("glob", ["encoder.layers.*.output", "*.output", OUTPUT])
def test_what_a_glob_declares_and_does_not_deliver_is_missing(glob: str, golden: Recording) -> None:
    problems = check(golden, declaring(golden, [glob, "encoder.norm"], "encoder.norm")).problems
    assert {problem.rule for problem in problems} == {"missing tap"}
    assert {pattern_of(problem.where.partition(" ")[0]) for problem in problems} == {OUTPUT}


def test_a_misspelt_pattern_is_a_failure_that_names_the_nearest(golden: Recording) -> None:
    wrong = "encoder.layers.{layer}.ouput"
    (problem,) = check(golden, declaring(golden, [wrong, "encoder.norm"], "encoder.norm")).problems
    assert (problem.where, problem.rule) == (wrong, "declared, but no such name")
    assert OUTPUT in problem.expected


def test_a_layers_number_is_no_pattern_and_the_pattern_is_named(golden: Recording) -> None:
    (problem,) = check(golden, declaring(golden, ["encoder.layers.0.output", "encoder.norm"], "encoder.norm")).problems
    assert OUTPUT in problem.expected


def test_a_glob_that_matches_nothing_is_a_failure(golden: Recording) -> None:
    (problem,) = check(golden, declaring(golden, ["nothing.*", "encoder.norm"], "encoder.norm")).problems
    assert problem.rule == "declared, but no such name"


def test_a_glob_may_also_match_what_this_golden_does_not_have(golden: Recording) -> None:
    every = {pattern_of(item.info.name) for item in golden}
    assert check(golden, declaring(golden, ["*"], *every)).word == "parity"


def test_a_model_that_declares_a_glob_is_recorded_with_the_patterns_it_stands_for(
    golden: Recording, tmp_path: Path
) -> None:
    record(golden, tmp_path / "c.pb", repeating(golden, ["*"]))
    candidate = read(tmp_path / "c.pb")
    assert list(candidate.run.materialised) == list(golden.run.materialised)
    assert check(golden, candidate).word == "parity"


def test_a_model_that_declares_a_name_that_nothing_has_is_told_before_it_runs(
    golden: Recording, tmp_path: Path
) -> None:
    with pytest.raises(ParityError, match="declares a tap that nothing has") as error:
        record(golden, tmp_path / "c.pb", repeating(golden, ["encoder.layers.{layer}.ouput"]))
    assert OUTPUT in str(error.value.expected) and error.value.fault == "candidate"
    assert not list(tmp_path.iterdir())
