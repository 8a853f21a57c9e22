"""Hugging Face's gradients, by autograd in float32, against the specification's in float64."""

from functools import cache

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, Array, pb
from qwen3_reference.capture.models import Reference, load_reference
from qwen3_reference.capture.training import Trained, prepare, train
from qwen3_reference.cases.networks import case, inputs
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.sizes import PAD_ID
from qwen3_reference.checkpoints.weights import load_weights
from qwen3_reference.floors.arithmetics import spec_run
from qwen3_reference.floors.scope import Scope
from qwen3_spec import FLOAT64, ops
from qwen3_spec.ops.loss import IGNORED_LABEL

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
MERGED = ["encdec/ragged", "encdec/unrotated", "encdec/window", "encdec/qwen2", "encdec/unpadded"]
CAUSAL = ["decoder/ragged_decode", "decoder/window_chunks", "decoder/window_even", "encdec/qwen2", "encdec/unpadded"]
SOFTENING = 2.0**-4
"""Factor of the decoder's final norm, exact: the softmax of loud logits is one-hot, and hides what it should show."""
WORST = 2e-5
"""Of a gradient's RMS."""

Values = dict[str, Array]


def tables(trained: Trained, stack: str, half: str = "") -> tuple[Array, Array]:
    """cos and sin as Hugging Face made them."""
    cos, sin = (trained.taps[f"{stack}.{half}{table}"].detach().numpy() for table in ("cos", "sin"))
    return cos, sin


def vocabulary_of(name: str) -> int:
    return model_config(CHECKPOINTS / case(name).decoder).vocab_size


def inputs_of(name: str) -> Values:
    return dict(inputs(case(name), vocabulary_of(name)))


def labels_of(name: str) -> Array:
    """A label for each real token of the decoder, but for a fifth of them."""
    mask, rng = inputs_of(name)["input.decoder_attention_mask"], np.random.default_rng(5)
    counted = mask.astype(bool) & (rng.random(mask.shape) < 0.8)
    return np.where(counted, rng.integers(0, vocabulary_of(name), mask.shape), IGNORED_LABEL)


def _prepare(name: str, *, causal: bool) -> Reference:
    """A case's models in training mode without dropout."""
    definition = case(name)
    reference = load_reference(
        None if causal or not definition.encoder else CHECKPOINTS / definition.encoder,
        CHECKPOINTS / definition.decoder,
        rotate_encoder_keys=definition.rotate_encoder_keys,
        attention="eager" if causal else None,
    )
    prepare(reference)
    with torch.no_grad():
        reference.decoder.model.norm.weight.mul_(SOFTENING)
    return reference


def trained_on(name: str, reference: Reference, labels: Array, *, shift: bool = False) -> Trained:
    """One step on a case's inputs; `shift`: Hugging Face shifts the labels."""
    request = inputs_of(name) | {"input.labels": labels}
    return train(reference, request, **({"shift_labels": None} if shift else {}))


def specified(
    name: str,
    request: Values,
    labels: Array,
    trained: Trained,
    *,
    causal: bool,
    padding_idx: int | None = PAD_ID,
) -> Values:
    """The taps of the specification's training step on Hugging Face's tables."""
    definition, taps = case(name), dict[str, Array]()
    encoder = None if causal or not definition.encoder else CHECKPOINTS / definition.encoder
    directory = CHECKPOINTS / definition.decoder
    weights = dict(load_weights(encoder, directory))
    weights["decoder.norm.weight"] = weights["decoder.norm.weight"] * np.float32(SOFTENING)
    config = model_config(directory, rotate_encoder_keys=definition.rotate_encoder_keys)
    known = {n: v for n, v in request.items() if encoder is not None or not n.startswith("input.encoder")}
    halves = [("decoder", ""), *([] if encoder is None else [("encoder", "")])]
    halves += [("decoder", "encoder_")] if encoder is not None and config.rotate_encoder_keys else []
    angles = {
        (f"{stack}.{half}{table}", 0): value
        for stack, half in halves
        for table, value in zip(("cos", "sin"), tables(trained, stack, half), strict=True)
    }
    steps = labels.shape[1:]
    step = pb.Case(config=config, steps=steps, training=pb.Training(padding_idx=padding_idx))
    scope = Scope(config, known | {"input.labels": labels}, steps, step)
    spec_run(weights, scope, angles, lambda _, name, value: taps.__setitem__(name, value), FLOAT64)
    return taps


def error(actual: Array, expected: Array) -> float:
    """RMS of the difference in shares of the RMS of what is expected."""
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


@cache
def step_of(name: str, *, causal: bool = False) -> tuple[Trained, Values]:
    """One training step on a case: Hugging Face's, and the taps of the specification's."""
    request, labels = inputs_of(name), labels_of(name)
    trained = trained_on(name, _prepare(name, causal=causal), labels)
    return trained, specified(name, request, labels, trained, causal=causal)


def check_parameters(trained: Trained, expected: Values) -> None:
    assert abs(trained.loss.item() - expected["loss"]) < 1e-6 * expected["loss"]
    totals = {f"gradient.{name}": gradient.numpy() for name, gradient in trained.totals().items()}
    assert totals.keys() == {n for n in expected if n.startswith("gradient.") and n.endswith((".weight", ".bias"))}
    errors = {name: error(gradient, expected[name]) for name, gradient in totals.items()}
    assert max(errors.values()) < WORST, max(errors, key=lambda name: errors[name])


@pytest.mark.parametrize("name", MERGED)
def test_gradients_through_the_merged_cache_are_the_specifications(name: str) -> None:
    trained, expected = step_of(name)
    check_parameters(trained, expected)


@pytest.mark.parametrize("name", CAUSAL)
def test_gradients_of_a_causal_model_are_the_specifications(name: str) -> None:
    trained, expected = step_of(name, causal=True)
    check_parameters(trained, expected)


@pytest.mark.parametrize("name", MERGED)
def test_gradients_of_activations_are_the_specifications(name: str) -> None:
    trained, expected = step_of(name)
    compared = set()
    for tap, gradient in trained.activations().items():
        actual = gradient.numpy()
        site, _, last = tap.rpartition(".")
        if f"gradient.{tap}" not in expected:  # the output of the layer before, a branch of a sum
            assert last in ("input", "o_proj", "down_proj")
            continue
        judged = np.ones(actual.shape, bool)
        if last == "probs":  # of a hidden key: what it would be worth, which changes nothing
            judged[:] = trained.taps[f"{site}.mask"].numpy()[:, None]
        assert error(actual[judged], expected[f"gradient.{tap}"][judged]) < WORST, tap
        compared.add(last)
    assert compared >= {
        "embed_tokens",
        "q_rope",
        "probs",
        "context",
        "attn_residual",
        "act",
        "output",
        "norm",
        "logits",
    }


def test_looking_up_the_pad_token_trains_nothing_though_it_is_a_real_token_here() -> None:
    name = "encdec/unpadded"
    trained, taps = step_of(name)
    ids = inputs_of(name)["input.decoder_input_ids"]
    assert taps["gradient.decoder.embed_tokens"][ids == PAD_ID].any()
    by_head = ops.linear.by_weight(taps["gradient.logits"], taps["decoder.norm"])[PAD_ID]
    assert error(trained.totals()["shared.weight"][PAD_ID].numpy(), by_head) < WORST
    ordinary = specified(name, inputs_of(name), labels_of(name), trained, causal=False, padding_idx=None)
    assert error(ordinary["gradient.shared.weight"][PAD_ID], by_head) > 1000 * WORST


def test_labels_alone_are_shifted_by_one() -> None:
    name = "decoder/window_chunks"
    request, labels = inputs_of(name), labels_of(name)
    trained = trained_on(name, _prepare(name, causal=True), labels, shift=True)
    shifted = np.concatenate([labels[:, 1:], np.full_like(labels[:, :1], IGNORED_LABEL)], axis=1)
    expected = specified(name, request, shifted, trained, causal=True)
    check_parameters(trained, expected)


def test_where_no_label_counts_hugging_face_has_nan_and_the_specification_0() -> None:
    name = "decoder/window_chunks"
    request = inputs_of(name)
    labels = np.full_like(labels_of(name), IGNORED_LABEL)
    trained = trained_on(name, _prepare(name, causal=True), labels)
    expected = specified(name, request, labels, trained, causal=True)
    assert trained.loss.isnan() and expected["loss"] == 0
