"""Labels that are all ignored: loss 0, zero gradients, one warning."""

import warnings
from typing import Any

import pytest
import torch

IGNORED = -100
WARNING = "every label is -100: the loss is 0 and so is every gradient"


@pytest.fixture(params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(pad_token_id=1, attn_implementation=request.param)


def _loss(model: Any, ids: Any, labels: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(ids(2, 4), decoder_input_ids=ids(2, 5), labels=labels).loss
    return loss


def test_loss_of_ignored_labels_is_zero_and_warned_of_once(model: Any, ids: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loss = _loss(model, ids, torch.full((2, 5), IGNORED))
    assert loss.item() == 0.0
    assert [str(warning.message) for warning in caught] == [WARNING]


@pytest.mark.filterwarnings("ignore:every label")
@pytest.mark.parametrize("mode", ["plain", "checkpointed", "labels alone"])
def test_gradients_of_ignored_labels_are_zero_and_there_for_every_parameter(model: Any, ids: Any, mode: str) -> None:
    model.train()
    if mode == "checkpointed":
        model.activation_checkpointing_enable({"use_reentrant": False})
    labels = torch.full((2, 5), IGNORED)
    loss = model(ids(2, 4), labels=labels).loss if mode == "labels alone" else _loss(model, ids, labels)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


def test_row_of_ignored_labels_is_ordinary(model: Any, ids: Any) -> None:
    labels = ids(2, 5, seed=3)
    labels[0] = IGNORED
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = _loss(model, ids, labels)
    alone = model(ids(2, 4)[1:], decoder_input_ids=ids(2, 5)[1:], labels=labels[1:]).loss
    torch.testing.assert_close(both, alone)


def test_step_on_ignored_labels_leaves_the_gradients_of_the_other_steps(model: Any, ids: Any) -> None:
    labels = ids(2, 5, seed=3)
    _loss(model, ids, labels).backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    with pytest.warns(UserWarning, match=WARNING):
        _loss(model, ids, torch.full((2, 5), IGNORED)).backward()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.grad, expected[name]), name


def test_labels_of_a_smaller_integer_type_give_the_same_loss(model: Any, ids: Any) -> None:
    labels = ids(2, 5, seed=3)
    assert _loss(model, ids, labels.int()).item() == _loss(model, ids, labels).item()
