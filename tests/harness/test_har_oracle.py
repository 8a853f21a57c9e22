"""The reference against formulas written down here once more: epsilon, causal alignment, windows, scale, backend."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pattern_of, pb, tensor
from qwen3_parity import check
from qwen3_reference.capture.models import load_reference
from qwen3_reference.capture.recorded_attention import recording_attention
from qwen3_reference.capture.run import run_reference

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
ULP = 2.0**-24
Golden = Callable[[str], Recording]


def directory_of(recording: Recording) -> Path:
    return CHECKPOINTS / recording.case.checkpoint[-1].name


def config_of(recording: Recording) -> dict[str, Any]:
    """The configuration file itself, not what our code makes of it."""
    config: dict[str, Any] = json.loads((directory_of(recording) / "config.json").read_text(encoding="utf-8"))
    return config


def error(actual: Array, expected: Array) -> float:
    """The largest error in units of float32 roundoff of each number, on rows that are not all padding."""
    return float(np.max(np.abs(actual - expected) / (ULP * np.abs(expected).clip(1e-30))))


def normed(x: Array, weight: Array, eps: float) -> Array:
    rows = x.astype(np.float64).reshape(-1, x.shape[-1])
    means = [math.fsum(float(v) ** 2 for v in row) / len(row) for row in rows]
    return (rows / np.sqrt(np.array(means) + eps)[:, None] * weight).reshape(x.shape)


@pytest.mark.parametrize(
    "name", ["encoder/ragged", "encoder/window_odd", "decoder/ragged_decode", "decoder/generation"]
)
def test_har_16_the_references_epsilon_is_that_of_the_configuration_file(name: str, golden: Golden) -> None:
    recording = golden(name)
    stack = "encoder" if name.startswith("encoder") else "decoder"
    weights: dict[str, Array] = {}
    for file in directory_of(recording).glob("*.safetensors"):
        weights |= load_file(file)
    taps = [f"{stack}.layers.0.{part}" for part in ("input", "input_layernorm")]
    x, y = (recording[tap, 0].array for tap in taps)
    weight, eps = weights["model.layers.0.input_layernorm.weight"], config_of(recording)["rms_norm_eps"]
    assert error(y, normed(x, weight, eps)) < 20
    for wrong in (eps * 1.01, eps / 10, 1e-5, 0.0):
        assert error(y, normed(x, weight, wrong)) > 200, wrong


def window_of(recording: Recording, layer: int) -> int | None:
    """From the configuration file: layers by their listed type, or from `max_window_layers` on."""
    config = config_of(recording)
    if not config.get("use_sliding_window"):
        return None
    types = config.get("layer_types")
    slides = types[layer] == "sliding_attention" if types else layer >= config["max_window_layers"]
    return int(config["sliding_window"]) if slides else None


def bidirectional(recording: Recording, layer: int, _step: int, _top_left: bool) -> Array:
    real, window = recording["input.encoder_attention_mask", 0].array, window_of(recording, layer)
    batch, length = real.shape
    mask = np.zeros((batch, length, length), bool)
    for b, i, j in np.ndindex(mask.shape):
        mask[b, i, j] = real[b, j] and (window is None or abs(i - j) <= window)
    return mask


def causal(recording: Recording, layer: int, step: int, top_left: bool) -> Array:
    """Who sees whom in a step: own keys at and before the query's place among all, within the window; all of memory."""
    real, window = recording["input.decoder_attention_mask", 0].array, window_of(recording, layer)
    memory = recording.get("input.encoder_attention_mask")
    past, length = sum(recording.case.steps[:step]), recording.case.steps[step]
    extra = memory.array if memory is not None else np.zeros((len(real), 0), bool)
    mask = np.zeros((len(real), length, past + length + extra.shape[1]), bool)
    for b, i, j in np.ndindex(mask.shape):
        if j >= past + length:
            mask[b, i, j] = extra[b, j - past - length]
        else:
            distance = (i if top_left else past + i) - j
            mask[b, i, j] = real[b, j] and distance >= 0 and (window is None or distance < window)
    return mask


def wrong_masks(recording: Recording, top_left: bool = False) -> set[int]:
    """The steps in which a recorded mask is not the formula's, in rows that are no padding."""
    wrong = set()
    for item in recording:
        if item.info.op != "mask":
            continue
        stack, _, rest = item.info.name.partition(".layers.")
        formula = bidirectional if stack == "encoder" else causal
        mask = formula(recording, int(rest.partition(".")[0]), item.info.step, top_left)
        real, stop = recording[f"input.{stack}_attention_mask", 0].array, mask.shape[1]
        if stack == "decoder":
            stop = sum(recording.case.steps[: item.info.step + 1])
        rows = real[:, stop - mask.shape[1] : stop]
        if recording.case.rows:
            rows, mask = rows[:, -recording.case.rows :], mask[:, -recording.case.rows :]
        if not np.array_equal(item.array[rows], mask[rows]):
            wrong.add(item.info.step)
    return wrong


def test_har_16_every_recorded_mask_is_that_of_the_formula(networks: dict[str, Recording]) -> None:
    masked = [recording for recording in networks.values() if any(item.info.op == "mask" for item in recording)]
    assert len(masked) >= 13
    by_formula = [recording for recording in masked if recording.get("input.decoder_mask") is None]
    assert {recording.case.name: wrong_masks(recording) for recording in by_formula if wrong_masks(recording)} == {}


def test_har_16_a_mask_that_is_given_whole_is_recorded_as_it_is(golden: Golden) -> None:
    recording = golden("decoder/mask_4d")
    mask, stop = recording["input.decoder_mask", 0].array, 0
    for step, length in enumerate(recording.case.steps):
        start, stop = stop, stop + length
        for layer in range(recording.case.config.num_hidden_layers):
            recorded = recording[f"decoder.layers.{layer}.merged_attn.mask", step].array
            np.testing.assert_array_equal(recorded, mask[:, start:stop, :stop])


def test_har_16_a_causal_mask_aligned_at_the_top_left_would_be_noticed(golden: Golden) -> None:
    assert wrong_masks(golden("decoder/window_chunks"), top_left=True) == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("name", ["decoder/ragged_decode", "encdec/unrotated", "encdec/qwen2"])
def test_har_16_scores_are_products_over_the_root_of_the_head_dimension(name: str, golden: Golden) -> None:
    recording = golden(name)
    config = config_of(recording)
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    at = "decoder.layers.1.merged_attn."
    queries, scores = recording[f"{at}q_rope", 1].array, recording[f"{at}scores", 1].array
    keys = [t.array for t in (recording.get(f"{at}cache_keys", 1), recording.get(f"{at}cache_encoder_keys", 1)) if t]
    key = np.concatenate(keys, axis=2).astype(np.float64)
    groups = queries.shape[1] // key.shape[1]
    for head in range(queries.shape[1]):
        products = queries[:, head, :, None].astype(np.float64) * key[:, head // groups, None]
        unit = ULP * np.abs(products).sum(-1) / math.sqrt(width)
        assert np.max(np.abs(scores[:, head] - products.sum(-1) / math.sqrt(width)) / unit) < 16


@pytest.mark.parametrize("name", ["encoder/window_odd", "decoder/window_even", "decoder/ragged_decode"])
def test_har_16_frequencies_are_powers_of_the_files_theta(name: str, golden: Golden) -> None:
    recording = golden(name)
    config = config_of(recording)
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    frequencies = recording[f"{name.partition('/')[0]}.inv_freq", 0].array
    assert error(frequencies, np.array([theta ** (-2 * i / config["head_dim"]) for i in range(len(frequencies))])) < 16


def test_har_17_every_golden_names_its_backend_and_it_is_eager(networks: dict[str, Recording]) -> None:
    assert {recording.run.backend for recording in networks.values()} == {pb.EAGER}


def by_backend(recording: Recording, backend: str) -> Recording:
    """The reference once more on a golden's inputs, by an attention of Hugging Face's with the mask that it builds.

    Merged attention is given the eager mask, additive: nothing of Hugging Face's builds it whole.
    """
    if recording.case.mode == pb.ENCODER_DECODER:
        recording_attention(f"har_{backend}", ALL_ATTENTION_FUNCTIONS[backend], materialise=False)
        backend = f"har_{backend}"
    roles = {checkpoint.role: CHECKPOINTS / checkpoint.name for checkpoint in recording.case.checkpoint}
    reference = load_reference(roles.get("encoder"), roles.get("decoder"), attention=backend)
    inputs = {t.info.name: t.array for t in recording if t.info.name.startswith("input.")}
    taps: list[Tensor] = [t for t in recording if t.info.name in inputs]

    def keep(step: int, tap: str, value: torch.Tensor) -> None:
        info = recording[tap, step].info
        taps.append(tensor(tap, value.numpy().copy(), step=step, axes=info.axes, op=info.op))

    run_reference(reference, inputs, recording.case.steps, keep)
    shown = sorted({pattern_of(item.info.name) for item in taps} - set(inputs))
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=shown)
    return replace(recording, run=run, tensors=taps, parameters=[])


@pytest.mark.parametrize("name", ["encoder/ragged", "decoder/window_chunks", "encdec/window"])
def test_har_17_the_references_fused_backend_agrees_within_budget(name: str, golden: Golden) -> None:
    verdicts = check(golden(name), by_backend(golden(name), "sdpa"))
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    assert verdicts.compared > 0.6 * verdicts.of


def test_har_17_the_references_backends_differ_where_no_key_is_visible_and_nobody_is_blamed(golden: Golden) -> None:
    recording = golden("encoder/ragged")
    name = "encoder.layers.0.self_attn.o_proj"
    fused = by_backend(recording, "sdpa")
    distance = np.abs(recording[name, 0].array - fused[name, 0].array)
    hidden = ~recording["encoder.layers.0.self_attn.mask", 0].array.any(axis=-1)
    assert distance[~hidden].max() < 1e-6 < 1 < distance[hidden].max()
    assert name in {tap.name for tap in check(recording, fused).taps if tap.passed}
