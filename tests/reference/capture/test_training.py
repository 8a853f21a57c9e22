"""The recorded training cases: Hugging Face's step, its floors, and what the inputs must show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Recording, minor_of, read
from qwen3_reference.capture.models import load_reference
from qwen3_reference.capture.record import record
from qwen3_reference.capture.training import padding_idx, prepare, train
from qwen3_reference.cases.networks import case, inputs
from qwen3_reference.cases.training import TRAINING_CASES
from qwen3_spec.ops.loss import IGNORED_LABEL

NAMES = [one.name for one in TRAINING_CASES]


def golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb")


def test_a_case_is_recorded_again_with_the_same_taps_within_its_floors(tmp_path: Path) -> None:
    record(case("training/causal"), GOLDEN_ROOT / "checkpoints", tmp_path / "again.pb")
    again, before = read(tmp_path / "again.pb"), golden("training/causal")
    assert [item.key for item in again] == [item.key for item in before]
    for item in again:
        error = np.abs(item.values().astype(np.float64) - before[item.key].values()).max(initial=0)
        assert error <= 8 * before[item.key].info.floor.max, item.info.name


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_has_the_loss_and_the_gradient_of_every_parameter(name: str) -> None:
    found = golden(name)
    recorded = {item.info.name.removeprefix("gradient.") for item in found}
    lookups = {one.name for one in found.parameters if one.name.endswith("embed_tokens.weight")}
    tied = {"lm_head.weight"} if found.case.config.tie_word_embeddings else set()
    assert {one.name for one in found.parameters} - lookups - tied | {"loss", "shared.weight"} <= recorded
    assert found.case.training.padding_idx == 3
    assert minor_of(found.case) == 3 + found.case.training.HasField("decoder_start_token_id")


@pytest.mark.parametrize("name", NAMES)
def test_every_gradient_has_a_floor_far_below_it_and_above_nothing(name: str) -> None:
    for item in golden(name):
        if item.info.name.startswith(("gradient.", "loss")):
            size = float(np.abs(item.values()).max())
            assert 0 < item.info.floor.max < 1e-5 * size, item.info.name


@pytest.mark.parametrize("name", NAMES)
def test_the_losss_floor_is_at_least_that_of_a_logit(name: str) -> None:
    found = golden(name)
    assert found["loss", 0].info.floor.rms >= found["logits", 0].info.floor.max


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_ignored_at_padding_and_elsewhere_and_rows_have_different_counts(name: str) -> None:
    given = inputs(case(name), golden(name).case.config.vocab_size)
    labels, real = given["input.labels"], given["input.decoder_attention_mask"]
    counts = (labels != IGNORED_LABEL).sum(axis=1)
    assert (labels[~real] == IGNORED_LABEL).all() and (labels[real] == IGNORED_LABEL).any()
    assert len(set(counts)) == len(counts) and counts.all()


def test_the_pad_id_is_a_real_token_of_both_stacks_whose_row_would_get_a_gradient() -> None:
    found = golden("training/tied")
    for stack in ("encoder", "decoder"):
        ids, real = (found[f"input.{stack}_{name}", 0].array for name in ("input_ids", "attention_mask"))
        assert found[f"gradient.{stack}.embed_tokens", 0].array[(ids == 3) & real].any()


def test_padding_passes_nothing_back() -> None:
    found = golden("training/tied")
    for stack in ("encoder", "decoder"):
        real = found[f"input.{stack}_attention_mask", 0].array
        assert not found[f"gradient.{stack}.embed_tokens", 0].array[~real].any()


def test_the_shared_matrix_has_the_sum_of_both_models_gradients() -> None:
    definition, found = case("training/tied"), golden("training/tied")
    directory = GOLDEN_ROOT / "checkpoints" / definition.decoder
    reference = prepare(load_reference(directory, directory))
    trained = train(reference, inputs(definition, found.case.config.vocab_size))
    both = [trained.parameters[f"{stack}.embed_tokens.weight"].double().numpy() for stack in ("encoder", "decoder")]
    shared = found["gradient.shared.weight", 0]
    budget = 8 * shared.info.floor.max  # the golden may be of other kernels
    for sum_of, right in ((both, True), (both[:1], False), (both[1:], False)):
        assert (np.abs(shared.array - sum(sum_of)).max() <= budget) is np.bool_(right)
    assert padding_idx(reference) == found.case.training.padding_idx
