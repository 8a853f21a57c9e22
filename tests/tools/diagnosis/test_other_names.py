"""Right numbers under another tap's name are a wrong name map, and no bug.

It runs `diagnosis.elsewhere`, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pb, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose

ATTENTION = "model.layers.1.self_attn"
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


def test_of_a_prefill_alone_wrong_names_are_said_too() -> None:
    rename = exchanged(".k_proj", ".v_proj")
    whole = named(rename)
    prefill = replace(whole, tensors=[item for item in whole if not item.info.step])
    diagnosis = diagnose(golden(), prefill, weights_of(golden(), CHECKPOINTS), partial=True)
    assert not diagnosis.faults and len(diagnosis.misplaced) == 2 and all(each.holds for each in diagnosis.misplaced)


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
        return item.array * np.float32(1.5) if item.info.name in ("lm_head", "logits") else item.array

    diagnosis = diagnosed(named(exchanged(".k_proj", ".v_proj"), wrong))
    (fault,) = diagnosis.faults
    assert {"lm_head", "logits"} & {*fault.fault.places}
    assert [each.holds.rpartition(".")[2] for each in diagnosis.misplaced] == ["v_proj", "k_proj"]


def test_heads_that_are_joined_are_the_numbers_of_those_that_are_apart() -> None:
    """What goes into `o_proj`, under the name of what it gives."""
    context = {item.info.step: item.array for item in golden() if item.info.name == f"{ATTENTION}.context"}

    def before(item: Tensor) -> Array:
        numbers = context[item.info.step]
        return numbers.reshape(*numbers.shape[:2], -1) if item.info.name == f"{ATTENTION}.q_proj" else item.array

    diagnosis = diagnosed(named(lambda name: name, before))
    assert not diagnosis.faults
    assert [(each.place, each.holds) for each in diagnosis.misplaced] == [
        ("model.layers.{layer}.self_attn.q_proj", "model.layers.{layer}.self_attn.context")
    ]


MISTAKE = "model.layers.{layer}.input_layernorm"


@pytest.mark.parametrize("first, second", [("layers.0", "layers.1"), (".k_proj", ".v_proj")])
def test_numbers_that_a_mistake_leaves_near_nothing_have_the_names_that_their_like_have(
    first: str, second: str, tmp_path: Path
) -> None:
    """Behind a wrong norm in layer 1 nothing is near the golden's; what is before it says how the map is wrong."""
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINTS / "qwen3-moe", attn_implementation="eager").eval()
    model.model.layers[1].input_layernorm.variance_epsilon = 2.0
    case, rename = qwen3_parity.golden(NAME), exchanged(first, second)
    taps = {item.info.name for item in golden()}
    names = {name: rename(name) for name, _ in model.named_modules() if name in taps}
    with torch.no_grad(), qwen3_parity.record(model, case, names=names, path=tmp_path / "x.pb"):
        model(**case.inputs)
    diagnosis = diagnosed(read(tmp_path / "x.pb"))
    assert [fault.fault.place for fault in diagnosis.faults] == [MISTAKE]
    assert len(diagnosis.misplaced) == 2 and all(each.holds for each in diagnosis.misplaced)
    assert not diagnosis.parameters


def test_a_tap_whose_name_has_anothers_numbers_and_whose_own_are_nowhere_is_left_out() -> None:
    """What goes into the first layer is the embeddings times a number: no tap of the golden has it."""

    def scaled(item: Tensor) -> Array:
        return item.array * np.float32(1.7) if item.info.name == "model.embed_tokens" else item.array

    diagnosis = diagnosed(named(hidden_states, scaled))
    assert not diagnosis.faults
    assert [(each.place, each.holds) for each in diagnosis.misplaced] == [
        ("model.layers.1", "model.layers.0"),
        ("model.layers.0", ""),
    ]


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
