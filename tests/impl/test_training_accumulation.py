"""Gradient accumulation: micro-batches of unequal counts of labels add up to the step of the whole batch."""

from typing import Any

import pytest
import torch
from transformers import Trainer, TrainingArguments

IGNORED = -100


@pytest.fixture
def model(make_model: Any) -> Any:
    return make_model(pad_token_id=1)


@pytest.fixture
def batch(ids: Any) -> dict[str, torch.Tensor]:
    labels = ids(4, 5, seed=3)
    labels[0, 1:] = IGNORED
    labels[2, 3:] = IGNORED
    return {"input_ids": ids(4, 4), "decoder_input_ids": ids(4, 5, seed=2), "labels": labels}


def gradients(model: Any, batches: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    model.zero_grad()
    for part in batches:
        model(**part).loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def rows(batch: dict[str, torch.Tensor], size: int) -> list[dict[str, torch.Tensor]]:
    return [{name: value[i : i + size] for name, value in batch.items()} for i in range(0, 4, size)]


def closeness(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """The worst RMS error, in shares of a gradient's RMS."""
    return max(float((actual[n] - expected[n]).norm() / expected[n].norm()) for n in expected)


def moved_by_rounding(model: Any, batch: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """How far one rounding of every weight moves the gradients: what float32 can keep of them, whatever the kernels.

    Adding up came to a quarter of it with three sets of kernels; a mean of means is 5,000 times as far off.
    """
    draw = torch.Generator().manual_seed(0)
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with torch.no_grad():
        for parameter in model.parameters():
            off = 2 * torch.rand(parameter.shape, generator=draw, dtype=torch.float64) - 1
            parameter.copy_(parameter.double() * (1 + 2.0**-23 * off))
    moved = gradients(model, [batch])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    return closeness(moved, expected)


@pytest.mark.parametrize("as_tensor", [False, True])
def test_losses_divided_by_the_labels_of_all_rows_add_up(model: Any, batch: Any, as_tensor: bool) -> None:
    count = (batch["labels"] != IGNORED).sum()
    parts = [row | {"num_items_in_batch": count if as_tensor else int(count)} for row in rows(batch, 1)]
    whole, added = gradients(model, [batch]), gradients(model, parts)
    assert closeness(added, whole) < 2 * moved_by_rounding(model, batch, whole)


def test_a_mean_of_means_is_another_gradient(model: Any, batch: Any) -> None:
    means = gradients(model, rows(batch, 1))
    quarter = {name: gradient / 4 for name, gradient in means.items()}
    assert closeness(quarter, gradients(model, [batch])) > 0.05


@pytest.mark.parametrize("count", [0, 7])
def test_a_micro_batch_without_labels_adds_nothing_and_is_not_warned_of(model: Any, batch: Any, count: int) -> None:
    ignored = batch | {"labels": torch.full_like(batch["labels"], IGNORED), "num_items_in_batch": count}
    assert not any(gradient.any() for gradient in gradients(model, [ignored]).values())


class _Items(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, batch: dict[str, torch.Tensor]) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: value[index] for name, value in self.batch.items()}


@pytest.mark.sample(every=2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", [1, 2])
def test_hugging_faces_trainer_accumulates_the_step_of_the_whole_batch(
    model: Any, make_model: Any, batch: Any, size: int, tmp_path: Any
) -> None:
    def trained(network: Any, per_device: int) -> dict[str, torch.Tensor]:
        arguments = TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=per_device,
            gradient_accumulation_steps=4 // per_device,
            max_steps=1,
            learning_rate=0.1,
            lr_scheduler_type="constant",
            optim="sgd",
            max_grad_norm=0.0,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        before = {name: p.detach().clone() for name, p in network.named_parameters()}
        Trainer(network, arguments, train_dataset=_Items(batch)).train()
        return {name: before[name] - p.detach() for name, p in network.named_parameters()}

    whole = trained(make_model(pad_token_id=1), 4)
    assert closeness(trained(model, size), whole) < 1e-3  # of the step, which float32 rounds into the weights
