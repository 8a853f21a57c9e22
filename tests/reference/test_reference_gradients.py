"""Hugging Face's gradients, by autograd in float32, against the specification's in float64."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from qwen3_golden import GOLDEN_ROOT, Array
from qwen3_reference.cases import case, inputs
from qwen3_reference.checkpoint_sizes import PAD_ID
from qwen3_reference.hooks import attach, encoder_half
from qwen3_reference.merged_cache import Memory, MergedCache
from qwen3_reference.models import Reference, load_reference
from qwen3_reference.run import merged_masks
from qwen3_reference.weights import canonical, load_weights, model_config, spec_config
from qwen3_spec import FLOAT64, Arithmetic, backward
from qwen3_spec.loss import IGNORED_LABEL

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
MERGED = ["encdec/ragged", "encdec/unrotated", "encdec/window", "encdec/qwen2", "encdec/unpadded"]
CAUSAL = ["decoder/ragged_decode", "decoder/window_chunks", "decoder/window_even", "encdec/qwen2", "encdec/unpadded"]
SOFTENING = 2.0**-4
"""Factor of the decoder's final norm, exact: the softmax of loud logits is one-hot, and hides what it should show."""
WORST = 2e-5
"""Of a gradient's RMS."""

Values = dict[str, Array]


@dataclass
class Trained:
    """What a training step of Hugging Face's models left: loss, gradients by canonical name, every tensor seen."""

    loss: float = 0.0
    parameters: Values = field(default_factory=dict)
    seen: dict[str, torch.Tensor] = field(default_factory=dict)

    def keep(self, name: str, value: torch.Tensor) -> None:
        """The sink of the hooks: the tensor itself, which will hold its gradient."""
        self.seen[name] = value
        if value.requires_grad and not value.is_leaf:
            value.retain_grad()

    def activations(self) -> Values:
        """The gradients of the activations that autograd passed; a slice that was made for us alone has none."""
        kept = {name: value for name, value in self.seen.items() if value.requires_grad and value.grad is not None}
        return {name: value.grad.numpy() for name, value in kept.items() if value.grad is not None}

    def tables(self, stack: str, half: str = "") -> tuple[Array, Array]:
        """cos and sin as Hugging Face made them."""
        cos, sin = (self.seen[f"{stack}.{half}{table}"].detach().numpy() for table in ("cos", "sin"))
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
    for model in (reference.encoder, reference.decoder):
        for module in () if model is None else model.train().modules():
            if hasattr(module, "attention_dropout"):
                module.attention_dropout = 0.0
    with torch.no_grad():
        reference.decoder.model.norm.weight.mul_(SOFTENING)
    if not tied:
        reference.decoder.lm_head.weight = nn.Parameter(reference.decoder.lm_head.weight.detach().clone())
    return reference


def _tensors(given: Values, stack: str) -> dict[str, torch.Tensor]:
    return {
        part: torch.from_numpy(given[f"input.{stack}_{part}"])
        for part in ("input_ids", "attention_mask", "position_ids")
    }


def _everything(_name: str) -> bool:
    return True


def train_merged(reference: Reference, given: Values, labels: Array) -> Trained:
    """One step of the encoder and of the merged decoder over all of its ids: gradients flow through the cache."""
    result, encoder, decoder = Trained(), reference.encoder, reference.decoder
    source, target = _tensors(given, "encoder"), _tensors(given, "decoder")
    with attach(encoder, "encoder", result.keep, attention="self_attn", wanted=_everything):
        ids, mask, positions = source["input_ids"], source["attention_mask"].long(), source["position_ids"]
        hidden = encoder(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).last_hidden_state
    length = hidden.shape[1]
    hooks = attach(
        decoder.model, "decoder", result.keep, attention="self_attn", wanted=_everything, encoder_length=length
    )
    with hooks:
        tables = None
        if reference.rotate_encoder_keys:
            with encoder_half():
                tables = decoder.model.rotary_emb(hidden, source["position_ids"])
        cache = MergedCache([layer.self_attn for layer in decoder.model.layers], Memory(hidden, tables))
        masks = merged_masks(decoder, cache, target["input_ids"], target["attention_mask"], source["attention_mask"])
        output = decoder(
            **(target | {"attention_mask": masks}),
            past_key_values=cache,
            labels=torch.from_numpy(labels),
            shift_labels=torch.from_numpy(labels),
        )
    result.keep("logits", output.logits)
    return _finish(result, output.loss, encoder=encoder, decoder=decoder)


def train_causal(reference: Reference, given: Values, labels: Array, *, shift: bool = False) -> Trained:
    """One step of Hugging Face's causal model as anybody trains it: a 2-D mask, no cache; `shift`: it shifts labels."""
    result, target = Trained(), _tensors(given, "decoder")
    target["attention_mask"] = target["attention_mask"].long()
    target["labels"] = torch.from_numpy(labels)
    if not shift:
        target["shift_labels"] = target["labels"]
    with attach(reference.decoder.model, "decoder", result.keep, attention="self_attn", wanted=_everything):
        output = reference.decoder(**target, use_cache=False)
    result.keep("logits", output.logits)
    return _finish(result, output.loss, decoder=reference.decoder)


def _finish(result: Trained, loss: torch.Tensor, **models: Any) -> Trained:
    loss.backward()  # type: ignore[no-untyped-call]
    result.loss = loss.item()
    for role, model in models.items():
        for name, parameter in model.named_parameters():
            result.parameters[canonical(role, name)] = parameter.grad.numpy()
    return result


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
    config = spec_config(model_config(directory, rotate_encoder_keys=definition.rotate_encoder_keys))

    def stack(which: str) -> backward.StackInput:
        ids, mask = given[f"input.{which}_input_ids"], given[f"input.{which}_attention_mask"]
        return backward.StackInput(ids, mask, *trained.tables(which))

    source = None if encoder is None else stack("encoder")
    keys = trained.tables("decoder", "encoder_") if source is not None and config.rotate_encoder_keys else None
    gradients = backward.loss_and_gradients(
        weights, config, stack("decoder"), labels, source, keys, taps.__setitem__, arithmetic, padding_idx
    )
    return gradients, taps


def error(actual: Array, expected: Array) -> float:
    """RMS of the difference in shares of the RMS of what is expected."""
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


@cache
def step_of(name: str, *, causal: bool = False, tied: bool = False) -> tuple[Trained, backward.Gradients, Values]:
    """One training step on a case: Hugging Face's, the specification's, and the gradients of its taps."""
    given, labels = inputs_of(name), labels_of(name)
    trained = (train_causal if causal else train_merged)(_prepare(name, causal=causal, tied=tied), given, labels)
    return trained, *specified(name, given, labels, trained, causal=causal)


def check_parameters(trained: Trained, expected: backward.Gradients) -> None:
    assert abs(trained.loss - expected.loss) < 1e-6 * expected.loss
    assert trained.parameters.keys() == expected.parameters.keys() - {backward.SHARED}
    errors = {name: error(gradient, expected.parameters[name]) for name, gradient in trained.parameters.items()}
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
    for tap, actual in trained.activations().items():
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
    assert error(trained.parameters["decoder.embed_tokens.weight"], parts[0] + parts[1]) < WORST
    both = sum(trained.parameters[f"{stack}.embed_tokens.weight"] for stack in ("encoder", "decoder"))
    assert error(both, expected.parameters[backward.SHARED]) < WORST


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
    trained = train_causal(_prepare(name, causal=True), given, labels, shift=True)
    shifted = np.concatenate([labels[:, 1:], np.full_like(labels[:, :1], IGNORED_LABEL)], axis=1)
    expected, _ = specified(name, given, shifted, trained, causal=True)
    check_parameters(trained, expected)


def test_where_no_label_counts_hugging_face_has_nan_and_the_specification_0() -> None:
    name = "decoder/window_chunks"
    given = inputs_of(name)
    labels = np.full_like(labels_of(name), IGNORED_LABEL)
    trained = train_causal(_prepare(name, causal=True), given, labels)
    expected, _ = specified(name, given, labels, trained, causal=True)
    assert np.isnan(trained.loss) and expected.loss == 0
