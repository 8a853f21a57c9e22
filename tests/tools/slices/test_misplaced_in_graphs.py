"""A tap of a graph that was recorded at another place accuses nobody: who reads it is judged without it.

It runs `diagnosis.misplaced` and `diagnosis.other_names`, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small import Values, golden, recording, run, weights
from test_slices_committed import CHECKPOINTS, golden_of
from transformers import AutoModelForCausalLM

import qwen3_parity
from qwen3_golden import Array, Recording, Tensor, pb, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose
from qwen3_parity.slices.network import network

EXPERTS = "layers.0.experts"


def places(candidate: Recording) -> tuple[list[str], list[str]]:
    """Where something is wrong, and what was recorded at another place."""
    diagnosis: Diagnosis = diagnose(golden(), candidate, weights())
    assert diagnosis.verdicts.exit_code == 1
    return [fault.fault.place for fault in diagnosis.faults], [fault.place for fault in diagnosis.misplaced]


def test_a_tap_that_holds_what_nobody_goes_on_with_is_misplaced_and_its_reader_is_right() -> None:
    values = run({})
    values[EXPERTS] = values[EXPERTS] + np.float32(1)
    candidate = recording(values, "port")
    assert places(candidate) == ([], ["layers.{layer}.experts"])
    verdicts = {tap.name: tap for tap in diagnose(golden(), candidate, weights()).verdicts.taps}
    assert verdicts["layers.0"].problem is None and verdicts["layers.0"].judged_alone
    assert verdicts[EXPERTS].problem is not None


def test_a_wrong_value_that_is_gone_on_with_is_no_misplaced_tap() -> None:
    wrong = {EXPERTS: lambda values: {EXPERTS: values[EXPERTS] + np.float32(1)}}
    assert places(recording(run(wrong), "port")) == (["layers.{layer}.experts"], [])


def test_who_goes_on_with_the_numbers_of_another_tap_has_a_bug_and_no_wrong_name() -> None:
    wrong = {"layers.0": lambda values: {"layers.0": values[EXPERTS]}}
    assert places(recording(run(wrong), "port")) == (["layers.{layer}"], [])


def test_a_reader_that_is_wrong_without_the_tap_as_well_is_accused_beside_it() -> None:
    def doubled(values: Values) -> Values:
        return {"layers.0": values["layers.0"] * np.float32(2)}

    values = run({"layers.0": doubled})
    values[EXPERTS] = values[EXPERTS] + np.float32(1)
    assert places(recording(values, "port")) == (["layers.{layer}.experts", "layers.{layer}"], [])


@pytest.mark.parametrize("tap", ["layers.0.gate[2]", "logits"])
def test_a_choice_and_what_nobody_reads_are_never_misplaced(tap: str) -> None:
    values = run({})
    values[tap] = values[tap][..., ::-1] if tap == "logits" else (values[tap] + 1) % 6
    wrong, elsewhere = places(recording(values, "port"))
    assert wrong and not elsewhere


def test_a_copy_that_some_readers_do_not_go_on_with_accuses_itself_and_none_of_them() -> None:
    """A stream that is stored in half precision: the router read it before, the residual behind."""

    def stored(values: Values) -> Values:
        rounded = (values["embed"].view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        return {"embed": rounded, "layers.0": rounded + values[EXPERTS]}

    values = run({})
    changed = stored(values)
    tensors = {**values, "embed": changed["embed"]}
    tensors["layers.0"] = changed["layers.0"]
    tensors["logits"] = tensors["layers.0"] @ weights()["head.weight"].T
    diagnosis = diagnose(golden(), recording(tensors, "port"), weights())
    assert [fault.fault.place for fault in diagnosis.faults] == ["embed"] and not diagnosis.misplaced
    copies = [finding.says for finding in diagnosis.faults[0].numbers if finding.name == "from.copy"]
    assert copies == ["a copy is otherwise: layers.*.gate went on with what the reference has here"]


def with_other(names: Mapping[str, float]) -> Diagnosis:
    """Hugging Face's own run of Qwen3-MoE with taps times a number, of another run so to speak."""
    expected = golden_of("model/qwen3_moe")
    tensors = list[Tensor]()
    for item in expected:
        info = pb.Tensor(name=item.info.name, step=item.info.step, dtype=item.info.dtype, axes=item.info.axes)
        array = item.array * np.float32(names[item.info.name]) if item.info.name in names else item.array
        tensors.append(Tensor(info, array))
    candidate = replace(expected, tensors=tensors, run=pb.Run(backend=pb.FOREIGN), graph=pb.Graph(), source="mine.pb")
    diagnosis: Diagnosis = diagnose(expected, candidate, weights_of(expected, CHECKPOINTS))
    return diagnosis


ATTENTION = "model.layers.0.self_attn"


def test_numbers_of_another_run_beside_the_same_value_under_another_name_are_misplaced() -> None:
    """`o_proj` is what `self_attn` gives: the layer goes on with the golden's, which stand there."""
    diagnosis = with_other({f"{ATTENTION}.o_proj": 1.7})
    assert not diagnosis.faults
    assert [each.place for each in diagnosis.misplaced] == ["model.layers.{layer}.self_attn.o_proj"]


@pytest.mark.parametrize("weight", [1.0, 1.7])
def test_who_goes_on_with_what_one_name_of_a_value_holds_has_a_bug_there(weight: float, tmp_path: Path) -> None:
    """What attention gives is not what `o_proj` gave; and of both names none has the golden's numbers."""
    case = qwen3_parity.golden("model/qwen3_moe")
    model = AutoModelForCausalLM.from_pretrained(case.checkpoint, attn_implementation="eager").eval()
    attention = model.model.layers[0].self_attn
    with torch.no_grad():
        attention.o_proj.weight.mul_(weight)
        hook = attention.register_forward_hook(lambda module, _, result: (result[0] * 0.6, *result[1:]))
        with qwen3_parity.record(model, case, path=tmp_path / "x.pb"):
            model(**case.inputs)
        hook.remove()
    diagnosis = diagnose(case.golden, read(tmp_path / "x.pb"), weights_of(case.golden, CHECKPOINTS))
    blamed = {place for fault in diagnosis.faults for place in fault.fault.places}
    assert "model.layers.{layer}.self_attn" in blamed and not diagnosis.misplaced


def test_what_was_read_of_a_cache_before_it_was_otherwise_accuses_the_cache_alone() -> None:
    """Values of slots that are lost within a step: its first queries had read them, its last one reads zeros."""
    case, values, context = "model/qwen3_moe", ("cache.0.values", 0), (f"{ATTENTION}.context", 0)
    expected = golden_of(case)
    held = weights_of(expected, CHECKPOINTS)
    lost = expected[values].values().copy()
    lost[0, :, 2:4] = 0
    ends = "cache.0.keys", values[0], context[0], *(f"{ATTENTION}.{name}" for name in ("q_norm", "k_norm", "v_proj"))
    tensors = [item for item in expected if not item.info.step and item.info.name in ends]
    changed = {values: lost}
    run_with = replace(expected, tensors=[_with(item, changed) for item in tensors])
    net = network(expected, run_with, held)
    read_late = expected[context].values().copy()
    read_late[0, -1] = net.slices.value(net.value(expected[context]))[0, -1]
    assert not np.allclose(read_late, expected[context].values())
    changed[context] = read_late
    candidate = replace(expected, tensors=[_with(item, changed) for item in tensors])
    diagnosis: Diagnosis = diagnose(expected, candidate, held, partial=True)
    assert [fault.fault.place for fault in diagnosis.faults] == ["cache.{layer}.values"]
    first, second, *_ = diagnosis.faults[0].numbers
    assert first.name == "cache.not_written" and second.name == "from.copy" and "in some rows" in second.says


def _with(item: Tensor, changed: Mapping[tuple[str, int], Array]) -> Tensor:
    return replace(item, array=np.asarray(changed.get(item.key, item.array), item.array.dtype))
