"""The training step once more with the specification, for the floors of its taps, gradients and loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from qwen3_golden import Array, pb
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_reference.floors.arithmetics import larger, spec_run
from qwen3_reference.floors.scope import Scope
from qwen3_spec import Arithmetic, Gradients, StackInput, loss_and_gradients
from qwen3_spec.sweep import Key


def spec_training(
    weights: Mapping[str, Array],
    scope: Scope,
    padding_idx: int | None,
    tables: Mapping[Key, Array],
    tap: Callable[[int, str, Array], None],
    arithmetic: Arithmetic,
) -> Gradients:
    """One step on the case's inputs, given the recorded cos and sin (`tables`); taps go to `tap(0, name, value)`."""
    config, inputs = spec_config(scope.config), scope.inputs
    values: dict[str, Array] = {}

    def keep(step: int, name: str, value: Array) -> None:
        values[name] = value
        tap(step, name, value)

    spec_run(weights, replace(scope, steps=inputs["input.decoder_input_ids"].shape[1:]), tables, keep, arithmetic)

    def stack(name: str) -> StackInput:
        ids, mask = inputs[f"input.{name}_input_ids"], inputs[f"input.{name}_attention_mask"]
        return StackInput(ids, mask, tables[f"{name}.cos", 0], tables[f"{name}.sin", 0])

    source = stack("encoder") if "input.encoder_input_ids" in inputs else None
    keys = ("decoder.encoder_cos", 0), ("decoder.encoder_sin", 0)
    return loss_and_gradients(
        values,
        weights,
        config,
        stack("decoder"),
        inputs["input.labels"],
        source,
        (tables[keys[0]], tables[keys[1]]) if all(key in tables for key in keys) else None,
        lambda name, value: tap(0, name, value),
        arithmetic,
        padding_idx,
    )


def with_loss(floors: dict[Key, pb.Floor]) -> dict[Key, pb.Floor]:
    """The loss's floor: at least that of the largest logit. Its own error, of one number, may be 0 by luck."""
    if ("loss", 0) not in floors:
        return floors
    of_logits = floors["logits", 0].max
    return floors | {("loss", 0): larger([floors["loss", 0], pb.Floor(rms=of_logits, max=of_logits, row=of_logits)])}
