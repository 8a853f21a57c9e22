"""Our encoder-decoder's gradients, by autograd in float32, against the specification's in float64."""

from functools import cache

import numpy as np
import pytest
import torch

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT, Array, pb
from qwen3_reference.cases.networks import case, inputs
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.weights import load_weights
from qwen3_reference.floors.arithmetics import spec_run
from qwen3_reference.floors.scope import Scope
from qwen3_spec import FLOAT64
from qwen3_spec.ops.loss import IGNORED_LABEL

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
CASES = ["encdec/ragged", "encdec/unrotated", "encdec/window", "encdec/qwen2", "encdec/unpadded"]
SOFTENING = 2.0**-4
"""Factor of the decoder's final norm, exact: the softmax of loud logits is one-hot, and hides what it should show."""
WORST = 2e-5
"""Of a gradient's RMS; Hugging Face's float32 has 6e-6."""

Values = dict[str, Array]


def inputs_of(name: str) -> Values:
    return dict(inputs(case(name), model_config(CHECKPOINTS / case(name).decoder).vocab_size))


def labels_of(name: str) -> Array:
    """A label for each real token of the decoder, but for a fifth of them."""
    vocab = model_config(CHECKPOINTS / case(name).decoder).vocab_size
    mask, rng = inputs_of(name)["input.decoder_attention_mask"], np.random.default_rng(5)
    counted = mask.astype(bool) & (rng.random(mask.shape) < 0.8)
    return np.where(counted, rng.integers(0, vocab, mask.shape), IGNORED_LABEL)


def load(name: str, attention: str) -> Qwen3ForSeq2SeqLM:
    """A case's model in training mode without dropout."""
    definition = case(name)
    model = load_qwen3(
        CHECKPOINTS / definition.decoder,
        CHECKPOINTS / definition.encoder,
        rotate_encoder_keys=definition.rotate_encoder_keys,
    )
    model.set_attn_implementation(attention)
    for module in model.train().modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0
    with torch.no_grad():
        model.decoder.norm.weight.mul_(SOFTENING)
    return model


def train(model: Qwen3ForSeq2SeqLM, arrays: Values, labels: Array) -> tuple[float, Values, Values]:
    """One step: the loss, the gradients of the parameters, and those of both stacks' embedded tokens."""
    tensors = {name.removeprefix("input."): torch.from_numpy(value) for name, value in arrays.items()}
    embedded = {stack: model.shared(tensors[f"{stack}_input_ids"]) for stack in ("encoder", "decoder")}
    for value in embedded.values():
        value.retain_grad()
    loss = model(
        inputs_embeds=embedded["encoder"],
        attention_mask=tensors["encoder_attention_mask"],
        position_ids=tensors["encoder_position_ids"],
        decoder_inputs_embeds=embedded["decoder"],
        decoder_attention_mask=tensors["decoder_attention_mask"],
        decoder_position_ids=tensors["decoder_position_ids"],
        labels=torch.from_numpy(labels),
    ).loss
    loss.backward()
    parameters = {name: parameter.grad.numpy() for name, parameter in model.named_parameters()}
    return loss.item(), parameters, {f"{stack}.embed_tokens": e.grad.numpy() for stack, e in embedded.items()}


@cache
def truth(name: str) -> Values:
    """The specification's loss and gradients by tap, on the cos and sin that the model computes."""
    definition, arrays, model = case(name), inputs_of(name), load(name, "eager")
    directories = CHECKPOINTS / definition.encoder, CHECKPOINTS / definition.decoder
    config = model_config(directories[1], rotate_encoder_keys=definition.rotate_encoder_keys)
    weights = dict(load_weights(*directories))
    weights["decoder.norm.weight"] = weights["decoder.norm.weight"] * np.float32(SOFTENING)

    angles: dict[tuple[str, int], Array] = {}
    for which in ("encoder", "decoder"):
        positions = torch.from_numpy(arrays[f"input.{which}_position_ids"])
        cos, sin = getattr(model, which).rotary_emb(model.shared.weight, positions)
        angles |= {(f"{which}.cos", 0): cos.numpy(), (f"{which}.sin", 0): sin.numpy()}
    angles |= {(f"decoder.encoder_{table}", 0): angles[f"encoder.{table}", 0] for table in ("cos", "sin")}
    steps = arrays["input.decoder_input_ids"].shape[1:]
    training = pb.Training(padding_idx=model.config.padding_idx)
    step = pb.Case(config=config, steps=steps, training=training)
    scope, taps = Scope(config, arrays | {"input.labels": labels_of(name)}, steps, step), Values()
    spec_run(weights, scope, angles, lambda _, tap, value: taps.__setitem__(tap, value), FLOAT64)
    return {tap: value for tap, value in taps.items() if tap.startswith("gradient.") or tap == "loss"}


def error(actual: Array, expected: Array) -> float:
    """RMS of the difference in shares of the RMS of what is expected."""
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", CASES)
def test_every_gradient_of_ours_is_the_specifications(name: str, attention: str) -> None:
    expected = truth(name)
    loss, parameters, embedded = train(load(name, attention), inputs_of(name), labels_of(name))
    assert abs(loss - expected["loss"]) < 1e-6 * expected["loss"]
    trained = {tap.removeprefix("gradient.") for tap in expected if tap.endswith((".weight", ".bias"))}
    assert parameters.keys() == trained
    errors = {n: error(gradient, expected[f"gradient.{n}"]) for n, gradient in (parameters | embedded).items()}
    assert max(errors.values()) < WORST, max(errors, key=lambda n: errors[n])
