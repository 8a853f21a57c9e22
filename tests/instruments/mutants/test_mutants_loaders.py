"""Every seeded bug of loading is refused, or found by the verification, by its name; and what is right never is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from detection.mutants import Mutant, catalogue, loading
from detection.mutants.command import mutants
from detection.mutants.isolated import golden_of, run_case, run_mutant
from detection.mutants.judged import by_diagnosis
from detection.mutants.loaders_run import Loading, messages, run_checkpoint
from detection.mutants.loaders_seeds import careless, files
from detection.mutants.mutant import REFUSED, words
from detection.mutants.not_applicable import REASONS
from detection.mutants.outcome import CaseOutcome, nothing
from detection.mutants.table import markdown
from qwen3_encdec.weights.fault import CHECKS
from qwen3_encdec.weights.verification import verify_weight_initialization, weight_faults
from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.recording.suite import OURS
from qwen3_reference.cases.models import MODEL_CASES
from qwen3_reference.checkpoints.classic_configs import is_classic
from qwen3_reference.checkpoints.configs import model_config

MODELS = {case.checkpoint for case in MODEL_CASES}
CHECKPOINTS = sorted(
    path.name
    for path in (GOLDEN_ROOT / "checkpoints").iterdir()
    if not (is_classic(path) or path.name in MODELS) and model_config(path).model_type in OURS
)
SAMPLE = {"tied-encoder", "tied-decoder", "even-window"}
"""The checkpoints that `make test` loads in every way; `make slow` takes them all."""
EVERY = [pytest.param(name, marks=[] if name in SAMPLE else pytest.mark.slow) for name in CHECKPOINTS]
LOADERS = {mutant.name: mutant for mutant in catalogue() if mutant.of_weights}
ROWS = {
    "WLD": "01 02 04 05 06 08 09 10 12 13 14 16 17 18 20 21 22",
    "HED": "01 02 04 05 06 08 09 10 12",
    "EMB": "01 02 04 05 06 08 09",
    "FNL": "01 02 04 05 06",
    "CFG": "01 02 04 05 06 08 09 10",
    "MRG": "17 20",
}
"""The rows of the catalogue of bugs that are about weights, families and configurations."""

ELSEWHERE = words(
    "ROP-08 CFG-02 CFG-04/theta CFG-05 CFG-05/rule CFG-05/first "  # config.json is read by one function alone
    "CFG-08 own/config-rotates-anyway "  # how the network runs, not what it holds
    "own/weight-final-norm-of-encoder own/weight-of-encoder RES-08"  # one checkpoint fills both stacks
)
"""Bugs of the network's weights and configuration that only a run shows."""


def test_every_row_about_weights_has_a_bug_or_a_reason_for_none() -> None:
    seeded = {mutant.name.partition("/")[0] for mutant in catalogue()}
    rows = {f"{family}-{number}" for family, numbers in ROWS.items() for number in numbers.split()}
    assert rows - seeded - REASONS.keys() == set()


@pytest.fixture(scope="module", params=[4, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every"])
def outcomes(request: pytest.FixtureRequest) -> Mapping[str, CaseOutcome]:
    """Every bug on every checkpoint that shows it, or every fourth of these."""
    shown = [(mutant, case) for mutant in LOADERS.values() for case in mutant.cases]
    return {f"{mutant.name} on {case}": run_case(mutant, case) for mutant, case in shown[:: request.param]}


def test_every_bug_is_caught_on_every_checkpoint(outcomes: Mapping[str, CaseOutcome]) -> None:
    assert len(LOADERS) > 60 and len(outcomes) > len(LOADERS) / 4
    assert [name for name, outcome in outcomes.items() if not outcome.caught or outcome.failure] == []


def test_the_checks_that_must_fail_do_and_no_other(outcomes: Mapping[str, CaseOutcome]) -> None:
    wrong = {
        name: (outcome.innocents, outcome.missed) for name, outcome in outcomes.items() if not outcome.exactly_blamed
    }
    assert wrong == {}


def test_every_message_names_the_mistake(outcomes: Mapping[str, CaseOutcome]) -> None:
    named = {f"{mutant.name} on {case}": mutant.named for mutant in LOADERS.values() for case in mutant.cases}
    strange = {name: set((outcome.diagnoses or {}).values()) - named[name] for name, outcome in outcomes.items()}
    assert {name: messages for name, messages in strange.items() if messages} == {}


def test_every_check_has_a_bug_that_it_alone_must_find() -> None:
    alone = {next(iter(mutant.wrong)) for mutant in LOADERS.values() if len(mutant.wrong) == 1}
    assert {*CHECKS, REFUSED} - alone == {"sentinel_rows_match_statistics"}  # other rows are not the seed's either


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("dtype", "sentinels"),
    [
        (None, 7),
        pytest.param(torch.float32, 0, marks=pytest.mark.slow),
        pytest.param(torch.bfloat16, 7, marks=pytest.mark.slow),
        pytest.param(torch.float16, 1, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_an_honest_load_has_no_fault(name: str, dtype: torch.dtype | None, sentinels: int, tmp_path: Path) -> None:
    load = Loading(GOLDEN_ROOT / "checkpoints" / name, tmp_path)
    load.options = {"num_sentinel_tokens": sentinels, "dtype": dtype}
    assert weight_faults(load.model, load.source) == []
    assert verify_weight_initialization(load.model, str(load.source)) == dict.fromkeys(CHECKS, True)


@pytest.mark.parametrize("seed", [careless(), files(lambda directory: None)], ids=["careless", "copied"])
@pytest.mark.parametrize("name", EVERY)
def test_the_ways_in_which_bugs_are_seeded_are_harmless_themselves(
    name: str, seed: Callable[[Loading], None], tmp_path: Path
) -> None:
    load = Loading(GOLDEN_ROOT / "checkpoints" / name, tmp_path)
    seed(load)
    assert messages(load) == {}


@pytest.mark.parametrize(
    "name", sorted({case.rpartition("/")[2] for mutant in LOADERS.values() for case in mutant.cases})
)
def test_the_committed_checkpoint_is_as_it_was_after_all_bugs_ran(
    name: str, outcomes: Mapping[str, CaseOutcome]
) -> None:
    weights = sorted((GOLDEN_ROOT / "checkpoints" / name).glob("*"))
    listed = (GOLDEN_ROOT / "MANIFEST.textproto").read_text(encoding="utf-8")
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in weights}
    assert [file for file, digest in digests.items() if digest not in listed] == []


def bugs_of_the_networks_weights() -> Sequence[Mutant]:
    return [mutant for mutant in loading.MUTANTS if mutant.name not in ELSEWHERE]


def of_network(mutant: Mutant, tmp_path: Path) -> Mapping[str, Sequence[str]]:
    """A bug of the network, seeded in a freshly loaded model of the first of its cases' checkpoints."""
    checkpoints = {checkpoint.role: checkpoint.name for checkpoint in golden_of(mutant.cases[0]).case.checkpoint}
    load = Loading(GOLDEN_ROOT / "checkpoints" / (checkpoints.get("decoder") or checkpoints["encoder"]), tmp_path)
    try:
        mutant.seed(load)
        return messages(load)
    finally:
        load.undo()


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("mutant", bugs_of_the_networks_weights(), ids=lambda mutant: mutant.name)
def test_what_the_diagnosis_finds_in_weights_the_verification_finds_too(mutant: Mutant, tmp_path: Path) -> None:
    assert of_network(mutant, tmp_path)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_what_a_run_alone_shows_the_verification_does_not_claim(name: str, tmp_path: Path) -> None:
    assert not of_network(next(entry for entry in loading.MUTANTS if entry.name == name), tmp_path)


@pytest.mark.slow
def test_what_the_table_of_names_has_wrong_the_verification_shares_and_the_diagnosis_finds(tmp_path: Path) -> None:
    mutant = next(entry for entry in catalogue() if entry.name == "own/loader-table")
    assert not of_network(mutant, tmp_path)
    outcome = nothing(mutant, (run_case(mutant, mutant.cases[0], by_diagnosis),))
    assert outcome.blamed and outcome.diagnosed, outcome.judged


def test_a_wrong_expectation_shows_as_innocents_missed_ones_and_no_name() -> None:
    mutant = replace(LOADERS["FNL-01/loader"], wrong=words("mlp_match"), named=frozenset(["zeros"]))
    outcome = run_checkpoint(mutant, mutant.cases[0])
    assert (outcome.innocents, outcome.missed) == (("norms_match",), ("mlp_match",))
    assert not nothing(mutant, (outcome,)).diagnosed


def test_one_message_without_the_name_is_one_too_many() -> None:
    mutant = replace(LOADERS["WLD-06/loader"], named=frozenset(["never loaded: all ones"]))
    outcome = run_checkpoint(mutant, mutant.cases[0])
    assert outcome.exactly_blamed and not nothing(mutant, (outcome,)).diagnosed


def test_a_bug_that_changes_nothing_is_not_caught() -> None:
    outcome = run_checkpoint(replace(LOADERS["FNL-01/loader"], seed=lambda loading: None), "checkpoints/tied-decoder")
    assert not outcome.caught and not outcome.blamed


def test_a_bug_in_a_process_of_its_own_comes_to_the_same() -> None:
    mutant = LOADERS["WLD-10/loader"]
    assert run_mutant(mutant).judged == run_case(mutant, mutant.cases[0])


@pytest.mark.slow
def test_the_command_runs_bugs_of_loaders_with_all_others() -> None:
    ran = CliRunner().invoke(mutants, ["FNL-01/*", "HED-05/*", "--json", "--all-cases"])
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert report["totals"] == {"mutants": 4, "caught": 4, "blamed": 4, "named": 4, "failures": 0}
    assert {case["case"].partition("/")[0] for entry in report["mutants"] for case in entry["cases"]} == {"checkpoints"}


def test_tables_count_bugs_of_loaders_in_the_rows_of_their_families() -> None:
    mutant = LOADERS["FNL-01/loader"]
    page = markdown([nothing(mutant, (run_case(mutant, mutant.cases[0]),))])
    assert "| FNL | 1 | 1 | 1 | 1 | exact |" in page
