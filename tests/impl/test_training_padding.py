"""The pad token's row: looking it up trains nothing, as in Hugging Face's Qwen3, however the model was loaded."""

from pathlib import Path
from typing import Any

import pytest
import torch

from qwen3_encdec import Qwen3ForSeq2SeqLM

PAD = 7


@pytest.fixture
def model(make_model: Any) -> Any:
    return make_model(pad_token_id=PAD, tie_word_embeddings=False)


def gradient_of_pad(model: Any, ids: Any) -> torch.Tensor:
    """The gradient of the pad token's row, which both stacks look up as an ordinary token."""
    source, target = ids(2, 4), ids(2, 5, seed=3)
    source[:, 1] = target[:, 2] = PAD
    model.zero_grad()
    model(source, decoder_input_ids=target, labels=ids(2, 5, seed=4)).loss.backward()
    gradient: torch.Tensor = model.shared.weight.grad[PAD]
    return gradient


def test_looking_up_the_pad_token_trains_nothing(model: Any, ids: Any) -> None:
    assert not gradient_of_pad(model, ids).any()
    assert model.shared.weight.grad.any()


def test_a_tied_head_trains_the_pad_tokens_row_all_the_same(make_model: Any, ids: Any) -> None:
    assert gradient_of_pad(make_model(pad_token_id=PAD), ids).any()


@pytest.mark.parametrize("pad", [None, 97, 5000, -1])
def test_a_pad_id_that_is_no_row_keeps_nothing_from_being_trained(make_model: Any, ids: Any, pad: int | None) -> None:
    model = make_model(pad_token_id=pad, tie_word_embeddings=False)
    assert model.config.padding_idx is None and model.shared.padding_idx is None
    assert gradient_of_pad(model, ids).any()


def test_a_pad_token_that_starts_every_target_is_trained(make_model: Any, ids: Any) -> None:
    model = make_model(pad_token_id=PAD, decoder_start_token_id=PAD, tie_word_embeddings=False)
    assert gradient_of_pad(model, ids).any()


def test_saving_and_loading_keeps_the_row_and_the_rule(model: Any, ids: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    loaded = Qwen3ForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(loaded.shared.weight, model.shared.weight) and loaded.shared.weight[PAD].any()
    assert not gradient_of_pad(loaded, ids).any()


def test_a_loaded_qwen3_checkpoint_keeps_its_pad_row_and_gets_the_rule(save_hf: Any, ids: Any) -> None:
    from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3

    source, directory = save_hf(pad_token_id=PAD, tie_word_embeddings=False)
    model = load_qwen3(directory)
    assert torch.equal(model.shared.weight, source.model.embed_tokens.weight) and model.shared.weight[PAD].any()
    assert not gradient_of_pad(model, ids).any()


def test_resized_embeddings_keep_the_rule_unless_the_row_is_cut_off(model: Any, ids: Any) -> None:
    model.resize_token_embeddings(120)
    assert not gradient_of_pad(model, ids).any()
    assert model.encoder.embed_tokens.padding_idx == PAD
    model.resize_token_embeddings(PAD)
    assert model.encoder.embed_tokens.padding_idx is None


def test_the_rule_is_hugging_faces(make_hf: Any, ids: Any) -> None:
    hf = make_hf(pad_token_id=PAD, tie_word_embeddings=False)
    target = ids(2, 5)
    target[:, 2] = PAD
    hf(target, labels=target).loss.backward()
    assert not hf.model.embed_tokens.weight.grad[PAD].any()
