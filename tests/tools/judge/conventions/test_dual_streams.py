"""A layer that hands its residual on apart is no other network: it is recognised, said, and nobody passes by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pattern_of, pb, read, tensor
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose

ENGINE: dict[str, Any] = {"source": "engine.pb", "digest": b"", "provenance": pb.Provenance(producer="engine")}

Change = Callable[[Tensor, Array], Array]
LAYER, ATTENTION = "decoder.layers.{layer}.output", "decoder.layers.{layer}.attn_residual"
BRANCH = {LAYER: "mlp.down_proj", ATTENTION: "merged_attn.o_proj"}


def golden_of(case: str = "decoder/plain") -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{case}.pb")


def weights(golden: Recording) -> dict[str, Array]:
    return dict(weights_of(golden, GOLDEN_ROOT / "checkpoints"))


def engine(golden: Recording, change: Change = lambda _, values: values, leave_out: tuple[str, ...] = ()) -> Recording:
    """A recording by Hugging Face's names of an engine that adds in the norm: sums hold their branch."""
    tensors = []
    for item in golden:
        pattern = pattern_of(item.info.name)
        if pattern.endswith(leave_out or ("no such",)):
            continue
        values = item.array
        if pattern in BRANCH:
            prefix = item.info.name.removesuffix("output").removesuffix("attn_residual")
            values = golden[prefix + BRANCH[pattern], item.info.step].array
        tensors.append(tensor(item.info.name, change(item, values), step=item.info.step, op=item.info.op))
    run = golden.run.__class__.FromString(golden.run.SerializeToString())
    patterns = {pattern_of(item.info.name) for item in tensors}
    run.materialised[:] = [declared for declared in golden.run.materialised if declared in patterns]
    return replace(golden, tensors=tensors, run=run, parameters=(), **ENGINE)


@pytest.mark.parametrize("case", ["decoder/plain", "decoder/ragged_decode", "llama/plain"])
def test_a_residual_that_is_handed_on_apart_is_said_and_passes_without_those_taps(case: str) -> None:
    golden = golden_of(case)
    verdicts = check(golden, engine(golden, leave_out=(".input",)), weights(golden))
    assert verdicts.word == "parity" and verdicts.exit_code == 0
    (note,) = verdicts.notes
    assert "dual residual stream" in note and LAYER in note and "add both" in note and "map it" in note
    missing = {name.partition(" ")[0] for name in verdicts.not_materialised}
    assert {pattern_of(name) for name in missing} >= set(BRANCH)


def test_a_branch_that_is_recorded_there_alone_is_judged_as_the_branch() -> None:
    golden, out = golden_of(), (".input", "down_proj", "o_proj")
    verdicts = check(golden, engine(golden, leave_out=out), weights(golden))
    assert verdicts.word == "parity" and "decoder.layers.1.mlp.down_proj" in {tap.name for tap in verdicts.taps}

    def scaled(item: Tensor, values: Array) -> Array:
        return values * np.float32(1.001) if item.info.name == "decoder.layers.1.output" else values

    wrong = check(golden, engine(golden, scaled, out), weights(golden))
    assert wrong.word == "divergence" and "decoder.layers.1.mlp.down_proj" in wrong.wrong_alone


def test_diagnose_says_it_and_accuses_nobody() -> None:
    golden = golden_of()
    diagnosis = diagnose(golden, engine(golden, leave_out=(".input",)), weights(golden))
    assert diagnosis.verdicts.word == "parity" and not diagnosis.faults and not diagnosis.misplaced
    assert "dual residual stream" in diagnosis.verdicts.notes[0]


def test_a_residual_that_is_missing_stays_missing() -> None:
    golden = golden_of()

    def change(item: Tensor, values: Array) -> Array:  # what follows was computed from the branch
        behind = item.info.name in ("decoder.norm", "logits") or item.info.name.endswith(
            ("input_layernorm", "post_attention_layernorm")
        )
        return values * np.float32(0.5) if behind else values

    verdicts = check(golden, engine(golden, change, (".input",)), weights(golden))
    assert verdicts.word == "divergence" and not verdicts.notes
    assert "decoder.layers.0.output" in verdicts.wrong_alone


def test_one_layer_that_forgets_its_residual_is_no_convention() -> None:
    golden = golden_of()
    name = "decoder.layers.1.output"
    tensors = [
        tensor(item.info.name, golden["decoder.layers.1.mlp.down_proj", item.info.step].array, step=item.info.step)
        if item.info.name == name
        else item
        for item in golden
    ]
    verdicts = check(
        golden,
        replace(golden, tensors=tensors, **ENGINE),
        weights(golden),
    )
    assert verdicts.word == "divergence" and name in verdicts.wrong_alone and not verdicts.notes
