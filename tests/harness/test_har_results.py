"""A verdict is what was found: never a request, a shape, a range, a text, and never a NaN that compares as nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from qwen3_golden import Array, Recording, Tensor, pb, write
from qwen3_parity import check
from qwen3_parity.cli import main
from qwen3_parity.judge.verdict import Verdict, Verdicts
from qwen3_parity.recording.ours.network import EncoderDecoder

Golden = Callable[[str], Recording]
Judged = Callable[..., Verdicts]
WithArray = Callable[..., Tensor]


def judged_taps(verdicts: Verdicts) -> list[Verdict]:
    """Taps of which at least one element counts: what is all padding is held to finiteness alone."""
    return [tap for tap in verdicts.taps if tap.metrics is not None and tap.metrics.count]


def spoilt(recording: Recording, with_array: WithArray, change: Callable[[Array], Array], *kinds: str) -> Recording:
    """The recording with every tensor changed, or those alone whose dtype is of `kinds`; inputs stay as they are."""

    def swap(item: Tensor) -> Tensor:
        if item.info.name.startswith("input.") or (kinds and item.array.dtype.kind not in kinds):
            return item
        return with_array(item, change(item.array))

    return replace(recording, tensors=[swap(item) for item in recording])


def test_har_01_a_report_says_what_was_found_not_that_a_check_was_asked_for(
    golden: Golden, with_array: WithArray, tmp_path: Path
) -> None:
    wrong = spoilt(golden("encoder/one_token"), with_array, np.negative, "f")
    write(tmp_path / "wrong.pb", wrong)
    result = CliRunner().invoke(main, ["check", str(tmp_path / "wrong.pb"), "--json"])
    assert result.exit_code == 1
    assert json.loads(result.output)["verdict"] == "divergence"


def test_har_01_no_field_of_a_verdict_can_be_set_to_passed() -> None:
    stored = {field.name for cls in (Verdict, Verdicts) for field in fields(cls)}
    assert not stored & {"passed", "word", "exit_code", "identical", "compared", "worst", "first_bad"}


def test_har_01_a_recording_has_no_place_to_claim_a_verdict() -> None:
    messages = pb.DESCRIPTOR.message_types_by_name.values()
    names = [f"{message.name}.{field.name}" for message in messages for field in message.fields]
    assert not [name for name in names if re.search("verif|pass|verdict|status|success", name)]


def test_har_06_right_shapes_with_other_values_fail_at_every_tap(golden: Golden, with_array: WithArray) -> None:
    recording = golden("encdec/qwen2")
    turned = spoilt(recording, with_array, lambda a: ~a if a.dtype == bool else -a - 1)
    verdicts = check(recording, turned)
    passed = [tap.where for tap in judged_taps(verdicts) if tap.passed]
    assert not passed
    assert len(judged_taps(verdicts)) > 150


@pytest.mark.parametrize("name", ["decoder.layers.0.merged_attn.q_rope", "decoder.cos", "decoder.sin", "logits"])
def test_har_12_values_of_the_same_range_in_another_order_fail(
    name: str, golden: Golden, with_array: WithArray
) -> None:
    recording = golden("decoder/ragged_decode")

    def reversed_(item: Tensor) -> Tensor:
        return with_array(item, np.ascontiguousarray(item.array[..., ::-1])) if item.info.name == name else item

    candidate = replace(recording, tensors=[reversed_(item) for item in recording])
    assert candidate[name, 0].array.max() == recording[name, 0].array.max()
    failed = {problem.where for problem in check(recording, candidate).problems}
    assert failed == {f"{name} (step {step})" for step in range(5)}


def test_har_15_a_model_that_says_the_same_text_with_other_logits_fails(
    judged: Judged, recorded: Callable[..., Recording], golden: Golden
) -> None:
    def scale(runner: EncoderDecoder) -> None:
        runner.model.lm_head.register_forward_hook(lambda _module, _args, logits: logits * 1.001)

    wanted = golden("decoder/generation")
    assert np.array_equal(recorded(wanted, scale)["generated_ids", 0].array, wanted["generated_ids", 0].array)
    verdicts = judged(wanted, scale)
    assert verdicts.exit_code == 1
    assert {tap.name for tap in verdicts.taps if not tap.passed} == {"logits"}


def test_har_15_every_case_with_a_text_also_compares_its_logits(networks: dict[str, Recording]) -> None:
    texts = [one for one in networks.values() if one.get("generated_ids")]
    assert len(texts) >= 2
    assert all(one.get("logits") for one in texts)


def last_element(bad: float) -> Callable[[Array], Array]:
    def change(array: Array) -> Array:
        array = array.copy()
        array.reshape(-1)[-1] = bad
        return array

    return change


def both_sides(recording: Recording, poisoned: Recording, side: str) -> tuple[Recording, Recording]:
    """Golden and candidate, poisoned on the side that is named; the golden's floors stay."""
    for item in poisoned:
        floor = recording[item.key].info
        if floor.HasField("floor"):
            item.info.floor.CopyFrom(floor.floor)
    return (
        recording if side == "the candidate alone" else poisoned,
        recording if side == "the golden alone" else poisoned,
    )


SIDES = ["the candidate alone", "the golden alone", "both"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("side", SIDES)
def test_har_22_one_value_that_is_not_finite_fails_at_every_float_tap(
    side: str, bad: float, golden: Golden, with_array: WithArray
) -> None:
    recording = golden("encoder/ragged")
    recording = replace(recording, tensors=[t for t in recording if t.info.op != "inv_freq"])
    expected, actual = both_sides(recording, spoilt(recording, with_array, last_element(bad), "f"), side)
    problems = [p for p in check(expected, actual).problems if p.rule == "NaN or infinity"]
    assert {p.got for p in problems} == {f"1 in {side}"}
    assert len(problems) == sum(item.is_float for item in recording) > 60


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("side", SIDES)
def test_har_22_a_frequency_that_is_not_finite_fails_on_either_side(
    side: str, bad: float, golden: Golden, with_array: WithArray
) -> None:
    recording = golden("encoder/ragged")
    recording = replace(recording, tensors=[t for t in recording if t.info.op == "inv_freq"])
    recording = replace(recording, run=pb.Run(materialised=["encoder.inv_freq"]))
    expected, actual = both_sides(recording, spoilt(recording, with_array, last_element(bad)), side)
    with np.errstate(all="ignore"):
        assert check(expected, actual).exit_code == 1


def test_har_22_a_model_that_computes_nan_is_refused(judged: Judged) -> None:
    def poison(runner: EncoderDecoder) -> None:
        with torch.no_grad():
            runner.model.decoder.layers[1].mlp.up_proj.weight[0, 0] = torch.nan

    verdicts = judged("decoder/generation", poison)
    assert verdicts.exit_code == 1
    assert verdicts.first_bad is not None and verdicts.first_bad.name == "decoder.layers.1.mlp.up_proj"
