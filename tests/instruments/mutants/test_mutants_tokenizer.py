"""Every seeded bug of a tokenizer is caught, blamed on the stages that are wrong alone, and called by its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from click.testing import CliRunner

from detection.mutants import Mutant, catalogue
from detection.mutants.command import mutants
from detection.mutants.isolated import golden_of, run_case, run_mutant
from detection.mutants.judged import Blame, Judge, by_diagnosis, by_replay
from detection.mutants.kept import frozen
from detection.mutants.mutant import words
from detection.mutants.outcome import CaseOutcome, Outcome, nothing
from detection.mutants.table import markdown
from qwen3_encdec.tokenizer import ByteLevelTokenizer
from qwen3_golden import GOLDEN_ROOT, STAGES
from qwen3_parity.recording.text import tokenized
from qwen3_parity.text.ours import runner_of

MUTANTS = {mutant.name: mutant for mutant in catalogue() if mutant.of_tokenizer}
SEED = 20240229
FIRST = {
    "segments": "TKS-02",
    "normalized": "TKS-13",
    "pre_tokens": "TOK-02/digits_by_three",
    "symbols": "own/tokenizer-piece-255-bytes",
    "merges": "TKM-04",
    "ids": "own/tokenizer-ids-by-rank",
    "offsets": "own/tokenizer-offsets-utf16",
    "pieces": "TKB-02/decode",
    "decoded": "TKB-05",
    "chunks": "TKB-05/stream",
    "batch": "TKS-16/left",
    "rendered": "TKS-12",
    "rendered_ids": "own/tokenizer-chat-plain",
}
"""Of each stage the bug that is named in every run of the tests; the others are named in slow ones."""


def harmless(case: str) -> Mutant:
    return Mutant("own/none", "nothing", lambda tokenizer: None, words("ids"), words("ids.by_rank"), (case,))


def judged(mutants: Sequence[Mutant], judge: Judge) -> list[Outcome]:
    """All in this process: a seed changes the one tokenizer that it is given."""
    return [nothing(mutant, tuple(run_case(mutant, case, judge) for case in mutant.cases)) for mutant in mutants]


@pytest.fixture(scope="module", params=[5, pytest.param(1, marks=pytest.mark.slow)], ids=["sample", "all"])
def outcomes(request: pytest.FixtureRequest) -> Sequence[Outcome]:
    """Of every fifth bug, or of all; each is run."""
    chosen = list(MUTANTS.values())[:: request.param]
    run_outcomes = judged(chosen, by_replay)
    assert [outcome.name for outcome in run_outcomes] == [outcome.name for outcome in chosen]
    return run_outcomes


@pytest.fixture(scope="module")
def shown(outcomes: Sequence[Outcome]) -> Mapping[str, CaseOutcome]:
    return {f"{outcome.name} on {case.case}": case for outcome in outcomes for case in outcome.cases if case.caught}


def test_every_stage_has_a_bug_of_its_own() -> None:
    assert list(FIRST) == list(STAGES) and all(MUTANTS[name].wrong == {stage} for stage, name in FIRST.items())


def test_a_bug_of_a_tokenizer_is_caught_wherever_it_should_show(outcomes: Sequence[Outcome]) -> None:
    silent = [
        f"{outcome.name} on {case.case}"
        for outcome in outcomes
        for case in outcome.cases
        if not case.caught or case.failure
    ]
    assert not silent


def test_the_stages_that_are_wrong_are_blamed_and_no_other(shown: Mapping[str, CaseOutcome]) -> None:
    wrong = {
        name: (case.innocents, case.missed, case.refused) for name, case in shown.items() if not case.exactly_blamed
    }
    assert wrong == {}


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("stage", FIRST)
def test_a_bug_of_each_stage_is_named_first(stage: str) -> None:
    mutant = MUTANTS[FIRST[stage]]
    (outcome,) = judged([replace(mutant, cases=mutant.cases[:1])], by_diagnosis)
    assert outcome.diagnosed, outcome.judged


@pytest.mark.slow
def test_the_bugs_of_tokenizers_that_are_not_named_first_are_on_the_list_as_such() -> None:
    outcomes = judged(list(MUTANTS.values()), by_diagnosis)
    others = {
        outcome.name: outcome.judged and outcome.judged.diagnoses for outcome in outcomes if not outcome.diagnosed
    }
    print(f"\n{markdown(outcomes)}\nnamed first: {len(outcomes) - len(others)} of {len(outcomes)}; not {others}")
    assert {name for name in others if "no name explains it" not in frozen()[name].why} == set()


def test_a_judge_that_names_nothing_is_no_diagnosis() -> None:
    def silent(*_: object) -> list[Blame]:
        return [Blame(("merges",))]

    mutant = MUTANTS["TKM-04"]
    outcome = nothing(mutant, (run_case(mutant, mutant.cases[0], silent),))
    assert outcome.caught and outcome.blamed and not outcome.diagnosed


def test_a_judge_that_blames_another_stage_is_not_exact() -> None:
    mutant = MUTANTS["TKM-04"]
    outcome = run_case(mutant, mutant.cases[0], lambda *_: [Blame(("ids",), "merges.left_to_right")])
    assert outcome.innocents == ("ids",) and outcome.missed == ("merges",) and not outcome.exactly_blamed


@pytest.mark.parametrize("case", sorted({case for mutant in MUTANTS.values() for case in mutant.cases}))
def test_a_tokenizer_without_a_bug_is_not_caught_after_all_the_others_ran(
    case: str, outcomes: Sequence[Outcome]
) -> None:
    assert not run_case(harmless(case), case).caught


def test_a_bug_in_a_process_of_its_own_comes_to_the_same() -> None:
    mutant = MUTANTS["TKS-13"]
    judgement = run_mutant(mutant, judge=by_replay).judged
    assert judgement is not None and judgement == run_case(mutant, mutant.cases[0], by_replay)


@pytest.mark.parametrize("pairs", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_two_bugs_at_once_are_both_blamed(outcomes: Sequence[Outcome], pairs: int) -> None:
    # A stream with the text of a wrong decoding is blamed with it or not; offsets of wrong ids never are.
    masked = {"ids", "chunks", "offsets"}
    alone = {
        outcome.name: outcome.judged
        for outcome in outcomes
        if outcome.blamed and not masked & MUTANTS[outcome.name].wrong
    }
    draw, wrong, drawn = Random(SEED), {}, 0
    for _ in range(1000 * pairs):
        if drawn == pairs:
            break
        first, second = (MUTANTS[name] for name in draw.sample(sorted(alone), 2))
        case = first.cases[0]
        if case != second.cases[0] or first.wrong & second.wrong or not (first.named and second.named):
            continue
        both = _one_after_another(first, second)
        if _tokens_with(case, first, second) in (_tokens_with(case, first), _tokens_with(case, second)):
            continue  # beside the other, one of them no longer shows
        together = Mutant("own/both", "both", both, first.wrong | second.wrong, words("ids.by_rank"), (case,))
        outcome = run_case(together, case, by_replay)
        drawn += 1
        if not outcome.exactly_blamed:
            wrong[first.name, second.name] = outcome
    assert drawn == pairs and wrong == {}


def _tokens_with(case: str, *mutants: Mutant) -> object:
    """What our tokenizer makes of a case with these bugs; what it raises where it does."""
    golden = golden_of(case)
    tokenizer = ByteLevelTokenizer.from_directory(GOLDEN_ROOT / "tokenizers" / golden.case.checkpoint[0].name)
    try:
        _one_after_another(*mutants)(tokenizer)
        return tokenized(runner_of(tokenizer), golden.tokenization)
    except Exception as error:
        return str(error)


def _one_after_another(*mutants: Mutant) -> Callable[[object], None]:
    def seed(tokenizer: object) -> None:
        for mutant in mutants:
            mutant.seed(tokenizer)

    return seed


def test_the_command_runs_bugs_of_tokenizers_by_their_names() -> None:
    ran = CliRunner().invoke(mutants, ["TKS-13", "own/tokenizer-nfc-*", "--blame-only", "--json"])
    totals = json.loads(ran.stdout)["totals"]
    assert ran.exit_code == 0, ran.stderr
    assert totals == {"mutants": 2, "caught": 2, "blamed": 2, "named": 0, "failures": 0}


@pytest.mark.slow
def test_with_all_cases_a_bug_of_a_tokenizer_meets_every_tokenization_and_nothing_else() -> None:
    ran = CliRunner().invoke(mutants, ["TKS-16", "--blame-only", "--all-cases", "--json"])
    (mutant,) = json.loads(ran.stdout)["mutants"]
    cases = {case["case"]: case["caught"] for case in mutant["cases"]}
    assert len(cases) > 8 and all(name.startswith("tokenization/") for name in cases)
    assert {name for name, caught in cases.items() if caught} == {"tokenization/batches", "tokenization/batch_lengths"}
