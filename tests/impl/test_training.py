"""Loss, labels, gradients and gradient checkpointing."""

from typing import Any

import pytest
import torch


@pytest.fixture
def model(make_model: Any) -> Any:
    return make_model(pad_token_id=1)


def test_labels_are_shifted_right_behind_the_start_id_and_ignored_ones_padded(model: Any) -> None:
    labels = torch.tensor([[10, -100, 12], [-100, 21, -100]])
    assert model.prepare_decoder_input_ids_from_labels(labels).tolist() == [[3, 10, 1], [3, 1, 21]]


def test_loss_is_the_mean_cross_entropy_without_ignored_labels(model: Any, ids: Any) -> None:
    labels = ids(2, 5, seed=3)
    labels[1, 2:] = -100
    output = model(ids(2, 4), labels=labels)
    picked = output.logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    expected = -picked[labels != -100].mean()
    torch.testing.assert_close(output.loss, expected)
    shifted = model.prepare_decoder_input_ids_from_labels(labels)
    torch.testing.assert_close(model(ids(2, 4), decoder_input_ids=shifted, labels=labels).loss, output.loss)


def _gradients(model: Any, ids: Any) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model(ids(2, 4), labels=ids(2, 5, seed=3)).loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_gives_the_same_gradients(model: Any, ids: Any, reentrant: bool) -> None:
    model.train()
    expected = _gradients(model, ids)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    assert model.encoder.gradient_checkpointing and model.decoder.layers[0].gradient_checkpointing
    actual = _gradients(model, ids)
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], rtol=1e-4, atol=1e-5)


def test_gradient_checkpointing_refuses_a_cache_while_training(model: Any, ids: Any) -> None:
    cache = model(ids(1, 3), decoder_input_ids=ids(1, 2)).past_key_values
    model.train()
    model.activation_checkpointing_enable()
    assert model(ids(1, 3), decoder_input_ids=ids(1, 2), use_cache=True).past_key_values is None
    with pytest.raises(ValueError, match="gradient checkpointing"):
        model(ids(1, 3), decoder_input_ids=ids(1, 2), past_key_values=cache)


def test_dropout_acts_in_training_only(make_model: Any, ids: Any) -> None:
    model = make_model(attention_dropout=0.5)
    plain = make_model()
    inputs = {"input_ids": ids(1, 4), "decoder_input_ids": ids(1, 3)}
    torch.testing.assert_close(model(**inputs).logits, plain(**inputs).logits, rtol=0, atol=0)
    assert not torch.allclose(model.train()(**inputs).logits, plain(**inputs).logits)
