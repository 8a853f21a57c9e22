"""One training step of ours against Hugging Face's goldens: loss, gradients, checkpointing, an optimizer's step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT, Array, Recording, read
from qwen3_parity.check import check
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours import training as implementation_training
from qwen3_parity.recording.ours.network import EncoderDecoder, factory
from qwen3_parity.recording.record import record
from qwen3_reference.checkpoints.weights import load_weights

NAMES = ["training/tied", "training/untied", "training/causal"]
CHECKPOINTS = GOLDEN_ROOT / "checkpoints"


def golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb")


def recorded(
    name: str, out: Path, backend: str = "eager", change: Callable[[EncoderDecoder], Any] = lambda _runner: None
) -> Recording:
    def build(case: Any, checkpoints: Any) -> EncoderDecoder:
        runner = factory(backend)(case, checkpoints)
        assert isinstance(runner, EncoderDecoder)
        change(runner)
        return runner

    record(golden(name), out / "candidate.pb", build)
    return read(out / "candidate.pb")


def judged(name: str, out: Path, backend: str = "eager") -> Verdicts:
    return check(golden(name), recorded(name, out, backend))


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("name", NAMES)
def test_loss_and_every_gradient_are_hugging_faces(name: str, backend: str, tmp_path: Path) -> None:
    verdicts = judged(name, tmp_path, backend)
    assert not verdicts.problems
    assert verdicts.compared == verdicts.of


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_of_both_stacks_changes_no_bit_of_a_gradient(reentrant: bool, tmp_path: Path) -> None:
    def checkpointed(runner: EncoderDecoder) -> None:
        runner.model.activation_checkpointing_enable({"use_reentrant": reentrant})
        stacks = (runner.model.encoder, runner.model.decoder)
        assert all(layer.gradient_checkpointing for stack in stacks for layer in stack.layers)

    off = recorded("training/tied", tmp_path)
    on = recorded("training/tied", tmp_path, change=checkpointed)
    names = [item.key for item in on if item.info.name.startswith(("gradient.", "loss"))]
    parameters = [key for key in names if key[0].endswith(".weight")]
    assert len(parameters) == 47 and ("loss", 0) in names
    compared = parameters if reentrant else names  # a reentrant checkpoint has no gradients inside a layer to show
    for key in compared:
        if reentrant:  # queries and keys add up in another order
            budget = golden("training/tied")[key].info.floor.max
            assert np.abs(on[key].array - off[key].array).max() <= 8 * budget, key
        else:
            np.testing.assert_array_equal(on[key].array, off[key].array, err_msg=key[0])


def test_the_tied_gradient_is_the_sum_of_three_places(tmp_path: Path) -> None:
    recording = recorded("training/tied", tmp_path)
    values = {item.info.name: item.values().astype(np.float64) for item in recording}
    total = np.zeros_like(values["gradient.shared.weight"])
    for stack in ("encoder", "decoder"):
        ids = values[f"input.{stack}_input_ids"].astype(int)
        passed = values[f"gradient.{stack}.embed_tokens"] * (ids != 3)[..., None]  # the pad id's look-up trains nothing
        np.add.at(total, ids, passed)
    logits, states = values["gradient.logits"], values["decoder.norm"]
    places = total + np.einsum("bqv,bqh->vh", logits, states)
    floor = golden("training/tied")["gradient.shared.weight", 0].info.floor.max
    assert np.abs(values["gradient.shared.weight"] - places).max() <= 8 * floor
    assert np.abs(values["gradient.shared.weight"] - total).max() > 1e3 * floor


def stepped(values: Array, gradient: Array, rate: float, decay: float, eps: float) -> Array:
    """The first step of AdamW (Loshchilov and Hutter 2019) in float64: the moments' corrections cancel."""
    return values * (1 - rate * decay) - rate * gradient / (np.abs(gradient) + eps)


def test_after_a_step_of_adamw_every_parameter_is_where_float64_puts_it(tmp_path: Path) -> None:
    name, rate, decay, eps = "training/tied", 1e-2, 0.1, 1e-3
    recording, before = golden(name), load_weights(CHECKPOINTS / "training-tied", CHECKPOINTS / "training-tied")
    model = load_qwen3(CHECKPOINTS / "training-tied", CHECKPOINTS / "training-tied")
    implementation_training.training_mode(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay, eps=eps)
    tensors = {
        item.info.name.removeprefix("input."): torch.from_numpy(item.array.copy())
        for item in recording
        if item.info.name.startswith("input.")
    }
    encoder = {n.removeprefix("encoder_"): v for n, v in tensors.items() if n.startswith("encoder_")}
    decoder = {n: v for n, v in tensors.items() if n.startswith("decoder_")}
    model(**encoder, **decoder, labels=tensors["labels"]).loss.backward()
    optimizer.step()
    for parameter_name, parameter in model.named_parameters():
        lookup = parameter_name.replace("shared", "decoder.embed_tokens")
        golden_gradient = recording[f"gradient.{parameter_name}", 0]
        gradient, values = golden_gradient.array.astype(np.float64), before[lookup].astype(np.float64)
        expected = stepped(values, gradient, rate, decay, eps)
        slope = rate * eps / (np.abs(gradient) + eps) ** 2  # of the step by the gradient
        budget = 8 * slope * golden_gradient.info.floor.max + 3 * 2.0**-24 * (np.abs(values) + rate)
        wrong = np.abs(parameter.detach().numpy() - expected) > budget
        assert not wrong.any(), (parameter_name, wrong.sum())
        assert np.median(np.abs(expected - values)) > 300 * np.median(budget), parameter_name


def test_a_step_without_decay_is_outside_of_that_budget() -> None:
    values, gradient = np.ones(3), np.full(3, 0.1)
    expected = stepped(values, gradient, 1e-2, 0.1, 1e-3)
    assert np.abs(stepped(values, gradient, 1e-2, 0.0, 1e-3) - expected).min() > 1e-4


def test_a_gradient_that_is_not_a_number_fails(tmp_path: Path) -> None:
    recording = recorded("training/causal", tmp_path)
    item = recording["gradient.decoder.norm.weight", 0]
    values = item.array.copy()
    values[0] = np.nan
    tensors = [type(item)(item.info, values) if tap is item else tap for tap in recording]
    broken = Recording(recording.case, recording.provenance, recording.run, tensors, recording.parameters)
    problems = list(map(str, check(golden("training/causal"), broken).problems))
    assert len(problems) == 1 and "NaN" in problems[0]
