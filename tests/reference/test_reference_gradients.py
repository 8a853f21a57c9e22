"""Hugging Face's gradients, by autograd in float32, against the specification's in float64."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from qwen3_golden import GOLDEN_ROOT, Array
from qwen3_reference.capture.models import Reference, load_reference
from qwen3_reference.capture.training import Trained, prepare, train
from qwen3_reference.cases.networks import case, inputs
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.sizes import PAD_ID
from qwen3_reference.checkpoints.weights import load_weights
from qwen3_reference.floors.scope import Scope
from qwen3_reference.floors.training import spec_training
from qwen3_spec import FLOAT64, Arithmetic, backward
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
    cos, sin = (trained.seen[f"{stack}.{half}{table}"].detach().numpy() for table in ("cos", "sin"))
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


def _prepare(name: str, *, causal: bool, tied: bool = False) -> Reference:
    """A case's models in training mode without dropout, the head a parameter of its own unless `tied`."""
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
    if not tied:
        reference.decoder.lm_head.weight = nn.Parameter(reference.decoder.lm_head.weight.detach().clone())
    return reference


def trained_on(name: str, reference: Reference, labels: Array, *, shift: bool = False) -> Trained:
    """One step on a case's inputs; `shift`: Hugging Face shifts the labels."""
    given = inputs_of(name) | {"input.labels": labels}
    return train(reference, given, **({"shift_labels": None} if shift else {}))


def parameters_of(trained: Trained) -> Values:
    return {name: gradient.numpy() for name, gradient in trained.parameters.items()}


def specified(
    name: str,
    given: Values,
    labels: Array,
    trained: Trained,
    *,
    causal: bool,
    arithmetic: Arithmetic = FLOAT64,
    padding_idx: int | None = PAD_ID,
) -> tuple[backward.Gradients, Values]:
    """The specification's gradients on Hugging Face's tables, and those of its taps."""
    definition, taps = case(name), dict[str, Array]()
    encoder = None if causal or not definition.encoder else CHECKPOINTS / definition.encoder
    directory = CHECKPOINTS / definition.decoder
    weights = dict(load_weights(encoder, directory))
    weights["decoder.norm.weight"] = weights["decoder.norm.weight"] * np.float32(SOFTENING)
    config = model_config(directory, rotate_encoder_keys=definition.rotate_encoder_keys)
    known = {n: v for n, v in given.items() if encoder is not None or not n.startswith("input.encoder")}
    halves = [("decoder", ""), *([] if encoder is None else [("encoder", "")])]
    halves += [("decoder", "encoder_")] if encoder is not None and config.rotate_encoder_keys else []
    angles = {
        (f"{stack}.{half}{table}", 0): value
        for stack, half in halves
        for table, value in zip(("cos", "sin"), tables(trained, stack, half), strict=True)
    }
    scope = Scope(config, known | {"input.labels": labels}, ())
    gradients = spec_training(
        weights, scope, padding_idx, angles, lambda _, name, value: taps.__setitem__(name, value), arithmetic
    )
    return gradients, taps


def error(actual: Array, expected: Array) -> float:
    """RMS of the difference in shares of the RMS of what is expected."""
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


@cache
def step_of(name: str, *, causal: bool = False, tied: bool = False) -> tuple[Trained, backward.Gradients, Values]:
    """One training step on a case: Hugging Face's, the specification's, and the gradients of its taps."""
    given, labels = inputs_of(name), labels_of(name)
    trained = trained_on(name, _prepare(name, causal=causal, tied=tied), labels)
    return trained, *specified(name, given, labels, trained, causal=causal)


def check_parameters(trained: Trained, expected: backward.Gradients) -> None:
    assert abs(trained.loss.item() - expected.loss) < 1e-6 * expected.loss
    assert trained.parameters.keys() == expected.parameters.keys() - {backward.SHARED}
    errors = {name: error(gradient, expected.parameters[name]) for name, gradient in parameters_of(trained).items()}
    assert max(errors.values()) < WORST, max(errors, key=lambda name: errors[name])


@pytest.mark.parametrize("name", MERGED)
def test_gradients_through_the_merged_cache_are_the_specifications(name: str) -> None:
    trained, expected, _ = step_of(name)
    check_parameters(trained, expected)


@pytest.mark.parametrize("name", CAUSAL)
def test_gradients_of_a_causal_model_are_the_specifications(name: str) -> None:
    trained, expected, _ = step_of(name, causal=True)
    check_parameters(trained, expected)


@pytest.mark.parametrize("name", MERGED)
def test_gradients_of_activations_are_the_specifications(name: str) -> None:
    trained, _, expected = step_of(name)
    compared = set()
    for tap, gradient in trained.activations().items():
        actual = gradient.numpy()
        site, _, last = tap.rpartition(".")
        if last == "input":  # the output of the layer before
            continue
        judged = np.ones(actual.shape, bool)
        if last == "probs":  # of a hidden key: what it would be worth, which changes nothing
            judged[:] = trained.seen[f"{site}.mask"].numpy()[:, None]
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


def test_a_tied_heads_gradient_adds_to_the_lookups() -> None:
    trained, expected, _ = step_of("encdec/ragged", tied=True)
    assert "lm_head.weight" not in trained.parameters
    parts = [expected.parameters[f"{part}.weight"] for part in ("decoder.embed_tokens", "lm_head")]
    assert error(parameters_of(trained)["decoder.embed_tokens.weight"], parts[0] + parts[1]) < WORST
    assert error(trained.totals()[backward.SHARED].numpy(), expected.parameters[backward.SHARED]) < WORST


def test_looking_up_the_pad_token_trains_nothing_though_it_is_a_real_token_here() -> None:
    name = "encdec/unpadded"
    trained, _, taps = step_of(name)
    ids = inputs_of(name)["input.decoder_input_ids"]
    assert taps["gradient.decoder.embed_tokens"][ids == PAD_ID].any()
    assert not trained.parameters["decoder.embed_tokens.weight"][PAD_ID].any()
    ordinary, _ = specified(name, inputs_of(name), labels_of(name), trained, causal=False, padding_idx=None)
    assert ordinary.parameters["decoder.embed_tokens.weight"][PAD_ID].any()


def test_labels_alone_are_shifted_by_one() -> None:
    name = "decoder/window_chunks"
    given, labels = inputs_of(name), labels_of(name)
    trained = trained_on(name, _prepare(name, causal=True), labels, shift=True)
    shifted = np.concatenate([labels[:, 1:], np.full_like(labels[:, :1], IGNORED_LABEL)], axis=1)
    expected, _ = specified(name, given, shifted, trained, causal=True)
    check_parameters(trained, expected)


def test_where_no_label_counts_hugging_face_has_nan_and_the_specification_0() -> None:
    name = "decoder/window_chunks"
    given = inputs_of(name)
    labels = np.full_like(labels_of(name), IGNORED_LABEL)
    trained = trained_on(name, _prepare(name, causal=True), labels)
    expected, _ = specified(name, given, labels, trained, causal=True)
    assert trained.loss.isnan() and expected.loss == 0
