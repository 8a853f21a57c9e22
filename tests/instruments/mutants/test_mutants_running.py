"""Running mutants: changes are taken back, processes are apart and limited in time, outcomes say what was found."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from detection.mutants import catalogue
from detection.mutants.isolated import CHECKPOINTS, golden_of, record_mutant, run_all, run_case, run_mutant
from detection.mutants.judged import Blame
from detection.mutants.mutant import Mutant, attention, words
from detection.mutants.patch import Patch
from detection.mutants.table import markdown, to_json, totals
from qwen3_encdec import inputs, modeling_qwen3_decoder
from qwen3_golden import ParityError
from qwen3_parity.checkpoints.weights import checkpoint_directories
from qwen3_parity.recording.ours.network import factory
from qwen3_parity.recording.record import record

CASE = "encoder/one_token"
HARMLESS = Mutant("own/none", "nothing", lambda patch: None, words("mlp.act"), words("mlp.activation"), (CASE,))


def seeded(seed, **fields):
    return Mutant(
        **({"name": "own/x", "says": "x", "wrong": words("mlp.act"), "named": words("a.b")} | fields),
        seed=seed,
        cases=(CASE,),
    )


def doubled(patch):
    for layer in patch.layers("encoder"):
        patch.on_input(layer.mlp.down_proj, lambda x: x * 2)


@pytest.fixture
def patch():
    golden = golden_of(CASE)
    patched = Patch(lambda: factory()(golden.case, checkpoint_directories(golden.case, CHECKPOINTS)))
    yield patched
    patched.undo()


def test_a_function_is_replaced_wherever_it_was_imported_and_put_back(patch):
    plain = inputs.positions
    patch.function(plain, lambda plain, *args: None)
    assert inputs.positions() is modeling_qwen3_decoder.positions() is None
    patch.undo()
    assert inputs.positions is modeling_qwen3_decoder.positions is plain


def test_a_sub_module_is_replaced_by_a_function_and_put_back(patch):
    block = patch.layers("encoder")[0].mlp
    plain = block.act_fn
    patch.setattr(block, "act_fn", lambda x: x + 1)
    assert block.act_fn(torch.zeros(1)) == 1
    patch.undo()
    assert block.act_fn is plain


def test_a_parameter_is_changed_in_place_and_put_back(patch):
    weight = patch.model.encoder.norm.weight
    before = weight.detach().clone()
    patch.change(weight, 7.0)
    assert bool((weight == 7).all())
    patch.undo()
    assert torch.equal(weight, before)


def test_a_method_of_a_class_is_wrapped_and_put_back(patch):
    before = torch.nn.Linear.forward
    patch.wrap(torch.nn.Linear, "forward", lambda plain, m, x: plain(m, x) * 0)
    assert not torch.nn.Linear(2, 2)(torch.ones(2)).any()
    patch.undo()
    assert torch.nn.Linear.forward is before


@pytest.mark.parametrize("step", [45, pytest.param(9, marks=pytest.mark.slow)])
def test_nothing_is_left_behind_by_any_mutant_that_patches_code(tmp_path, step):
    golden, before, after = golden_of("encdec/ragged"), tmp_path / "before.pb", tmp_path / "after.pb"
    record(golden, before, factory())
    for mutant in [mutant for mutant in catalogue() if not (mutant.of_tokenizer or mutant.of_weights)][::step]:
        with suppress(ParityError):
            record_mutant(mutant, golden, tmp_path / "mutant.pb")
    record(golden, after, factory())
    assert after.read_bytes() == before.read_bytes()


def test_a_harmless_mutant_is_not_caught():
    assert not run_case(HARMLESS, CASE).caught


def test_a_bug_is_caught_and_exactly_blamed():
    outcome = run_case(seeded(doubled), CASE)
    assert outcome.caught and outcome.exactly_blamed and outcome.blamed == ("mlp.act",) and outcome.share > 1


def test_a_wrong_expectation_shows_as_innocents_and_missed_ones():
    outcome = run_case(seeded(doubled, wrong=words("mlp.gate_proj")), CASE)
    assert (outcome.innocents, outcome.missed) == (("mlp.act",), ("mlp.gate_proj",))


def test_an_expected_place_that_the_case_does_not_record_is_not_missed():
    outcome = run_case(seeded(doubled, wrong=words("mlp.act") | attention("cache_keys")), CASE)
    assert outcome.exactly_blamed


def test_one_place_of_a_group_is_enough():
    outcome = run_case(
        seeded(doubled),
        CASE,
        lambda *_: [Blame(("encoder.layers.{layer}.mlp.down_proj", "encoder.layers.{layer}.mlp.act"))],
    )
    assert outcome.exactly_blamed


def test_a_diagnosis_is_right_when_every_explanation_is_one_of_those_named():
    def judge(*_):
        return [Blame(("encoder.layers.{layer}.mlp.act",), "a.b")]

    assert run_mutant(seeded(doubled), judge=judge).diagnosed
    assert not run_mutant(seeded(doubled, named=words("a.c")), judge=judge).diagnosed


def raising(patch):
    patch.setattr(patch.layers("encoder")[0].mlp, "act_fn", lambda x: x[:, :, :1, 0] @ x)


def test_a_run_that_raises_is_caught_and_right_only_when_it_had_to_be_refused():
    assert run_mutant(seeded(raising)).caught and not run_mutant(seeded(raising)).blamed
    assert run_mutant(seeded(raising, named=frozenset())).blamed


@pytest.mark.slow
def test_a_mutant_that_hangs_is_stopped_and_the_others_go_on(tmp_path: Path):
    def hangs(patch):
        time.sleep(30)
        (tmp_path / "it went on").touch()

    dying = seeded(lambda patch: os._exit(3), name="own/y")
    outcomes = list(run_all([seeded(hangs), dying], workers=2, timeout=3))
    assert {outcome.name: outcome.failure for outcome in outcomes} == {
        "own/x": "time limit",
        "own/y": "the process died",
    }
    assert not list(tmp_path.iterdir())


def test_a_mutant_that_kills_its_process_is_a_failure():
    assert run_mutant(seeded(lambda patch: os._exit(3))).failure == "the process died"


def test_a_process_that_cannot_go_backward_is_a_failure_and_catches_nothing(monkeypatch):
    def no_backward(*_, **__):
        raise RuntimeError("Unable to handle autograd's threading")

    monkeypatch.setattr(torch.Tensor, "backward", no_backward)
    monkeypatch.setattr(torch.autograd, "grad", no_backward)
    outcome = run_mutant(seeded(doubled), cases=("training/tied",))
    assert not outcome.caught and "autograd's threading" in outcome.failure


def test_a_mutant_changes_nothing_in_the_process_that_runs_it():
    plain = inputs.positions
    run_mutant(seeded(lambda patch: patch.function(plain, lambda plain, *args: plain(*args) + 1)))
    assert inputs.positions is plain


def test_a_judge_that_raises_is_a_failure_of_a_bug_that_is_caught():
    def judge(*_):
        raise ValueError("no idea")

    outcome = run_mutant(seeded(doubled), judge=judge)
    assert outcome.caught and outcome.cases[0].failure == "ValueError: no idea" and totals([outcome])["failures"] == 1


def test_tables_count_what_was_caught_blamed_and_named():
    outcomes = [run_mutant(seeded(doubled)), run_mutant(HARMLESS)]
    assert totals(outcomes) == {"mutants": 2, "caught": 1, "blamed": 1, "named": 0, "failures": 0}
    assert markdown(outcomes).splitlines()[-1].startswith("| all | 2 | 1 | 1 | 0 |")
    assert json.loads(json.dumps(to_json(outcomes), allow_nan=False))["totals"]["caught"] == 1
