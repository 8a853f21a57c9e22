"""A diagnosis of recordings: misplaced taps are no bugs, wrong parameters are named, flips are weighed by the noise."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, Tensor, pb, read, write
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.near_ties import flips
from qwen3_parity.diagnosis.parameters import parameter_faults
from qwen3_parity.diagnosis.search import ENOUGH
from qwen3_parity.diagnosis.whereabouts import ranges
from qwen3_parity.recording.ours.network import factory
from qwen3_parity.recording.record import record
from qwen3_parity.report import diagnoses as pages
from qwen3_parity.report.terminal import console

NORM = "decoder.layers.1.input_layernorm"
STREAM = "decoder.layers.1.input"
CHECKPOINT = GOLDEN_ROOT / "checkpoints" / "tied-encoder"


def holding_everywhere(world, name, source):
    spoilt = world.golden
    for step in (0, 1):
        spoilt = replace(world, golden=spoilt).holding(name, world.golden[source, step].array, step)
    return spoilt


def test_an_honest_run_has_nothing_to_diagnose(world):
    diagnosis = diagnose(world.golden, world.golden, world.weights)
    assert not (diagnosis.faults or diagnosis.misplaced or diagnosis.parameters or diagnosis.flips)


def test_a_tap_recorded_at_another_place_is_said_to_be_misplaced_and_blames_nobody(world):
    diagnosis = diagnose(world.golden, holding_everywhere(world, NORM, STREAM), world.weights)
    assert [misplaced.place for misplaced in diagnosis.misplaced] == ["decoder.layers.{layer}.input_layernorm"]
    assert not diagnosis.faults


def test_a_wrong_tap_that_is_read_as_it_is_recorded_is_not_misplaced(world):
    name = "decoder.norm"
    doubled = world.holding(name, world.golden[name, 0].array * 2)
    spoilt = replace(world, golden=doubled).holding("logits", world.golden["logits", 0].array * 2)
    diagnosis = diagnose(world.golden, spoilt, world.weights)
    assert ([fault.fault.place for fault in diagnosis.faults], list(diagnosis.misplaced)) == ([name], [])


def test_a_tap_of_another_number_of_axes_is_said_and_fails_no_hypothesis():
    golden = read(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb")
    last = [Tensor(t.info, t.array[:, -1] if t.key == ("logits", 0) else t.array) for t in golden]
    diagnosis = diagnose(golden, replace(golden, tensors=last), weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    assert [(fault.fault.place, fault.name) for fault in diagnosis.faults] == [("logits", "fit.shape")]
    assert not diagnosis.failures


@pytest.mark.parametrize(("options", "bounded"), [((), False), (("--budget", "8"), True)])
def test_no_clock_ends_a_search_unless_the_user_asks_for_it(options, bounded, monkeypatch):
    asked = []
    monkeypatch.setattr("qwen3_parity.diagnosis.diagnose", lambda *_, **bounds: asked.append(bounds))
    path = str(GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb")
    CliRunner().invoke(main, ["diagnose", path, path, *options])
    assert [(bounds["deadline"] < math.inf, bounds["work"]) for bounds in asked] == [(bounded, ENOUGH)]


def digests(recording, names, weights):
    def message(name, source):
        digest = hashlib.sha256(np.ascontiguousarray(weights[source]).tobytes()).digest()
        return pb.Parameter(name=name, dtype=pb.F32, shape=weights[name].shape, sha256=digest)

    return replace(recording, parameters=[message(name, source) for name, source in names.items()])


def test_a_parameter_that_holds_another_tensor_is_named_with_it(world):
    names = {name: name for name in world.weights}
    gate, up = (f"decoder.layers.0.mlp.{kind}_proj.weight" for kind in ("gate", "up"))
    golden = digests(world.golden, names, world.weights)
    faults = parameter_faults(digests(world.golden, names | {gate: up}, world.weights), golden, world.weights)
    assert [(parameter.name, parameter.says) for parameter in faults] == [(gate, f"holds the values of {up}")]


def test_a_parameter_with_values_of_its_own_is_said_to_be_in_no_tensor(world):
    names = {name: name for name in world.weights}
    golden = digests(world.golden, names, world.weights)
    changed = {**world.weights, "decoder.norm.weight": world.weights["decoder.norm.weight"] + 1}
    faults = parameter_faults(digests(world.golden, names, changed), golden, world.weights)
    assert [parameter.says for parameter in faults] == ["holds values of no tensor of the checkpoint"]


def flipped(world, by):
    """The logits of one position with the second best token lifted above the best by `by` floors."""
    item = world.golden["logits", 0]
    best, second = np.argsort(item.array[0, 0])[::-1][:2]

    def lift(array):
        array[0, 0, second] = array[0, 0, best] + np.float32(by)

    return world.changed("logits", lift), int(best), int(second)


def test_a_flip_of_distant_logits_is_a_real_one_with_its_margin(world):
    spoilt, best, second = flipped(world, 1.0)
    reported = flips(world.golden, spoilt)
    assert [(flip.expected, flip.actual, flip.near_tie) for flip in reported] == [(best, second, False)]
    assert reported[0].floors > 16


def test_a_flip_of_logits_within_the_noise_is_a_near_tie(world):
    item = world.golden["logits", 0]
    best, second = np.argsort(item.array[0, 0])[::-1][:2]

    def tie(array):
        array[0, 0, second] = array[0, 0, best] - np.float32(item.info.floor.max)

    golden = world.changed("logits", tie)

    def exceeded(array):
        tie(array)
        array[0, 0, second] = array[0, 0, best] + np.float32(item.info.floor.max)

    reported = flips(golden, world.changed("logits", exceeded))
    assert [flip.near_tie for flip in reported] == [True]
    assert "near-tie" in str(reported[0]) and "noise floor" in str(reported[0])


def test_a_logit_that_moved_far_makes_no_near_tie_of_near_logits(world):
    item = world.golden["logits", 0]
    best, second = np.argsort(item.array[0, 0])[::-1][:2]

    def tie(array):
        array[0, 0, second] = array[0, 0, best] - np.float32(item.info.floor.max)

    def lifted(array):
        array[0, 0, second] = array[0, 0, best] + np.float32(1)

    reported = flips(world.changed("logits", tie), world.changed("logits", lifted))
    assert [flip.near_tie for flip in reported] == [False]


@pytest.mark.parametrize(("indices", "text"), [([3], "3"), ([0, 1, 2, 5], "0–2, 5"), (range(0, 40, 2), None)])
def test_indices_are_told_as_ranges(indices, text):
    assert ranges(indices) == text if text else ranges(indices).endswith("…")


@pytest.fixture
def scaled(tmp_path):
    """A file on disk: our implementation with a scale that is 1 % off in one layer."""
    golden = read(GOLDEN_ROOT / "cases" / "encdec" / "ragged.pb")

    def build(case, checkpoints):
        runner = factory()(case, checkpoints)
        runner.model.decoder.layers[1].merged_attn.scaling *= 1.01
        return runner

    record(golden, tmp_path / "scaled.pb", build)
    return tmp_path / "scaled.pb"


def test_the_command_names_the_op_the_mistake_and_the_fix_from_files_alone(scaled):
    result = CliRunner().invoke(main, ["diagnose", str(scaled)])
    assert result.exit_code == 1
    for word in ("decoder.layers.*.merged_attn.scores", "scores.scale", "reproduces your numbers within", "fix:"):
        assert word in result.output


def test_the_command_speaks_json_with_the_run_and_the_ops_alone(scaled):
    document = json.loads(CliRunner().invoke(main, ["diagnose", str(scaled), "--json"]).stdout)
    assert [fault["place"] for fault in document["faults"]] == ["decoder.layers.{layer}.merged_attn.scores"]
    assert document["faults"][0]["explanations"][0]["name"] == "scores.scale"
    tap = next(entry for entry in document["taps"] if entry["name"] == "decoder.layers.2.input_layernorm")
    assert tap["share"] > 1 and tap["alone"]["passed"] and tap["run"]["shares"]["max"] > 1


def test_a_diagnosis_of_the_golden_itself_is_parity(tmp_path):
    golden = GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb"
    result = CliRunner().invoke(main, ["diagnose", str(golden), str(golden)])
    assert (result.exit_code, "every op that could be judged alone is right" in result.output) == (0, True)


def test_the_run_and_the_op_alone_stand_side_by_side(scaled):
    golden, candidate = read(GOLDEN_ROOT / "cases" / "encdec" / "ragged.pb"), read(scaled)
    from qwen3_parity.checkpoints.weights import weights_of

    diagnosis = diagnose(golden, candidate, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    screen = console()
    with screen.capture() as text:
        screen.print(pages.terminal(diagnosis))
    assert "run, of its budget" in text.get() and "alone, in rounding units" in text.get()


def test_a_case_of_one_op_has_nobody_else_to_blame():
    golden = GOLDEN_ROOT / "cases" / "op" / "rope.pb"
    result = CliRunner().invoke(main, ["diagnose", str(golden), str(golden)])
    summary = "every op that could be judged alone is right: 2 of 2 taps judged on their own inputs"
    assert (result.exit_code, summary in result.output) == (0, True)


def renamed(tmp_path):
    """A committed golden whose checkpoint has other bytes than the committed one of that name, as a file."""
    golden = read(GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb")
    case = pb.Case.FromString(golden.case.SerializeToString())
    case.checkpoint[0].sha256 = b"\0" * 32
    case.name = "own/one_token"
    path = tmp_path / "one_token.pb"
    write(path, replace(golden, case=case))
    return path


def test_a_checkpoint_of_another_digest_is_refused(tmp_path):
    path = renamed(tmp_path)
    done = CliRunner().invoke(main, ["diagnose", str(path), str(path), "--model", str(CHECKPOINT)])
    assert done.exit_code == 2
    assert "this is not the checkpoint 'tied-encoder' that own/one_token was recorded from" in done.output


def test_a_checkpoint_that_only_has_the_name_of_a_committed_one_judges_no_op_alone(tmp_path):
    path = renamed(tmp_path)
    done = CliRunner().invoke(main, ["check", str(path), str(path)])
    assert done.exit_code == 0
    assert "parity, run only" in done.output and "right on its own inputs" not in done.output
