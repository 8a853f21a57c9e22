"""Right numbers under another tap's name are a wrong name map, and no bug.

It runs `diagnosis.elsewhere`, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pb, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose

NAME, CHECKPOINTS = "model/qwen3_moe", GOLDEN_ROOT / "checkpoints"
CACHE = re.compile(r"cache\.|.*\[1\]$|.*\.(query|key|value|probs|context)$")
"""What hooks on modules do not see."""


@cache
def golden() -> Recording:
    return read(GOLDEN_ROOT / f"cases/{NAME}.pb", digests=True)


def named(rename: Callable[[str], str], change: Callable[[Tensor], Array] = lambda item: item.array) -> Recording:
    """Hugging Face's own module outputs, each under the name that a map gives it; none where that is empty."""
    tensors, parameters = list[Tensor](), list[pb.Parameter]()
    for item in golden():
        name = rename(item.info.name)
        if name and not CACHE.match(item.info.name):
            info = pb.Tensor(name=name, step=item.info.step, dtype=item.info.dtype, axes=item.info.axes)
            tensors.append(Tensor(info, change(item)))
    for loaded in golden().parameters:
        module, _, leaf = loaded.name.rpartition(".")
        parameter = pb.Parameter()
        parameter.CopyFrom(loaded)
        parameter.name = f"{rename(module) or module}.{leaf}"
        parameters.append(parameter)
    run = pb.Run(arithmetic=golden().run.arithmetic, backend=pb.FOREIGN)
    return replace(golden(), tensors=tensors, parameters=parameters, run=run, graph=pb.Graph(), source="mine.pb")


def diagnosed(candidate: Recording) -> Diagnosis:
    return diagnose(golden(), candidate, weights_of(golden(), CHECKPOINTS))


def exchanged(first: str, second: str) -> Callable[[str], str]:
    pairs = {first: second, second: first}
    return lambda name: re.sub(f"{re.escape(first)}|{re.escape(second)}", lambda match: pairs[match[0]], name)


def hidden_states(name: str) -> str:
    """`output_hidden_states` counted from 0: the first is what goes into layer 0."""
    shifted = {"model.embed_tokens": "model.layers.0", "model.layers.0": "model.layers.1", "logits": "logits"}
    return name if name.startswith("input.") else shifted.get(name, "")


PLACES = {
    "two projections": (
        exchanged(".k_proj", ".v_proj"),
        {
            "model.layers.{layer}.self_attn.k_proj": "model.layers.{layer}.self_attn.v_proj",
            "model.layers.{layer}.self_attn.v_proj": "model.layers.{layer}.self_attn.k_proj",
        },
    ),
    "two layers, with their routers' choices": (
        exchanged("layers.0", "layers.1"),
        {"model.layers.0": "model.layers.1", "model.layers.1": "model.layers.0"},
    ),
    "hidden states from 0": (
        hidden_states,
        {"model.layers.0": "model.embed_tokens", "model.layers.1": "model.layers.0"},
    ),
}


@pytest.mark.parametrize("rename, places", PLACES.values(), ids=PLACES)
def test_names_in_each_others_place_are_said_and_nobody_is_blamed(
    rename: Callable[[str], str], places: dict[str, str]
) -> None:
    diagnosis = diagnosed(named(rename))
    assert diagnosis.verdicts.exit_code == 1 and not diagnosis.faults and not diagnosis.parameters
    assert {each.place: each.holds for each in diagnosis.misplaced} == places
    assert not diagnosis.verdicts.structural  # the parameters have the same names
    problems = diagnosis.verdicts.problems
    assert {problem.rule for problem in problems} == {"has the numbers of another name"}
    assert {problem.next_step for problem in problems} == {"correct the name map"}


def test_a_network_of_the_table_of_taps_has_its_names_put_right_too() -> None:
    expected = read(GOLDEN_ROOT / "cases/llama/ragged_decode.pb", digests=True)
    names = {
        "decoder.embed_tokens": "decoder.layers.0.output",
        "decoder.layers.0.output": "decoder.layers.1.output",
        "logits": "logits",
    }
    tensors = list[Tensor]()
    for item in expected:
        if name := item.info.name if item.info.name.startswith("input.") else names.get(item.info.name):
            golden = expected[name, item.info.step].info
            info = pb.Tensor(name=name, step=item.info.step, dtype=item.info.dtype, axes=golden.axes, op=golden.op)
            tensors.append(Tensor(info, item.array))
    run = pb.Run(arithmetic=expected.run.arithmetic, backend=pb.FOREIGN, materialised=[*names.values()])
    candidate = replace(expected, tensors=tensors, run=run, parameters=(), source="mine.pb")
    diagnosis = diagnose(expected, candidate, weights_of(expected, CHECKPOINTS), partial=True)
    assert not diagnosis.faults and diagnosis.verdicts.exit_code == 1
    assert [(each.place, each.holds) for each in diagnosis.misplaced] == [
        ("decoder.layers.0.output", "decoder.embed_tokens"),
        ("decoder.layers.1", "decoder.layers.0"),
    ]


def test_a_mistake_beside_wrong_names_is_blamed_alone() -> None:
    def wrong(item: Tensor) -> Array:
        return item.array * np.float32(1.5) if item.info.name == "model.norm" else item.array

    diagnosis = diagnosed(named(exchanged(".k_proj", ".v_proj"), wrong))
    assert "model.norm" in {place for fault in diagnosis.faults for place in fault.fault.places}
    assert not any("_proj" in fault.fault.place for fault in diagnosis.faults)
    assert [each.holds.rpartition(".")[2] for each in diagnosis.misplaced][:2] == ["v_proj", "k_proj"]


def test_a_tap_that_nothing_reads_has_no_wrong_name() -> None:
    """The residual is left out in the last layer, whose output is the last tap: it may go on with that."""
    mlp = {item.info.step: item.array for item in golden() if item.info.name == "model.layers.1.mlp"}

    def without(item: Tensor) -> Array:
        return mlp[item.info.step] if item.info.name == "model.layers.1" else item.array

    def until(name: str) -> str:
        return "" if name in ("model.norm", "model", "lm_head", "logits") else name

    diagnosis = diagnose(golden(), named(until, without), weights_of(golden(), CHECKPOINTS), partial=True)
    assert [fault.fault.place for fault in diagnosis.faults] == ["model.layers.{layer}"]
    assert not diagnosis.misplaced
