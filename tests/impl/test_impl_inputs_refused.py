"""What a caller can get wrong is one clear `ValueError`, and the encoder is never fed in chunks."""

from typing import Any

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache


@pytest.fixture(scope="module")
def model(make_model: Any) -> Any:
    return make_model()


def _states(batch: int = 1, length: int = 3) -> torch.Tensor:
    return torch.ones(batch, length, 40)


@pytest.mark.parametrize("bad", [97, -1])
@pytest.mark.parametrize("side", ["encoder", "decoder", "labels"])
def test_id_outside_the_vocabulary_is_refused(model: Any, side: str, bad: int) -> None:
    good, wrong = torch.tensor([[5, 6]]), torch.tensor([[5, bad]])
    inputs = {"input_ids": good, "decoder_input_ids": good, "labels": good}
    inputs[{"encoder": "input_ids", "decoder": "decoder_input_ids"}.get(side, side)] = wrong
    with pytest.raises(ValueError, match=rf"{side}.*id {bad}; expected 0 … vocab_size - 1 = 96"):
        model(**inputs)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("both", [True, False])
def test_ids_and_embeddings_together_or_neither_are_refused(model: Any, side: str, both: bool) -> None:
    inputs = {"input_ids": torch.tensor([[5]]), "inputs_embeds": _states(1, 1)} if both else {}
    arguments = inputs if side == "encoder" else inputs | {"encoder_hidden_states": _states()}
    with pytest.raises(ValueError, match=f"the {side} needs exactly one.*got {'both' if both else 'neither'}"):
        getattr(model, side)(**arguments)


def test_model_without_encoder_input_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="no encoder input"):
        model(decoder_input_ids=torch.tensor([[5]]))


def test_model_without_decoder_input_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="no decoder input"):
        model(torch.tensor([[5]]))


def test_decoder_without_encoder_states_names_them(model: Any) -> None:
    with pytest.raises(ValueError, match="encoder_hidden_states is missing"):
        model.decoder(torch.tensor([[5]]))


@pytest.mark.parametrize("shape", [(2, 3, 40), (1, 3, 41), (3, 40)])
def test_encoder_states_of_another_shape_are_refused(model: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="encoder_hidden_states has shape"):
        model.decoder(torch.tensor([[5]]), torch.ones(shape))


def test_floating_ids_and_narrow_embeddings_are_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="dtype torch"):
        model.encoder(torch.ones(1, 2))
    with pytest.raises(ValueError, match="hidden_size = 40"):
        model.encoder(inputs_embeds=torch.ones(1, 2, 39))


def test_encoder_refuses_a_cache_because_it_cannot_be_fed_in_chunks(model: Any) -> None:
    with pytest.raises(ValueError, match="whole input in one call"):
        model.encoder(torch.tensor([[5]]), past_key_values=DynamicCache())


def test_cache_of_another_class_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="DynamicCache; expected an EncoderDecoderCache"):
        model.decoder(torch.tensor([[5]]), _states(), past_key_values=DynamicCache())


def test_cache_of_another_source_is_refused(model: Any) -> None:
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    model.decoder(torch.tensor([[5]]), _states(1, 3), past_key_values=cache)
    with pytest.raises(ValueError, match=r"\(1, 3\).*\(1, 4\)"):
        model.decoder(torch.tensor([[5]]), _states(1, 4), past_key_values=cache)


def test_self_cache_that_evicts_a_full_layers_keys_is_refused(make_model: Any, make_config: Any, model: Any) -> None:
    windowed = make_config(layer_types=["sliding_attention"] * 3, sliding_window=2)
    cache = EncoderDecoderCache(DynamicCache(config=windowed), DynamicCache())
    with pytest.raises(ValueError, match="keeps 2 tokens in layer 0, whose window is unlimited"):
        model.decoder(torch.tensor([[5]]), _states(), past_key_values=cache)


def test_mask_of_the_current_step_only_is_refused(model: Any) -> None:
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    model.decoder(torch.tensor([[5, 6]]), _states(), past_key_values=cache)
    with pytest.raises(ValueError, match=r"shape \(1, 1\); expected \(1, 3\)"):
        model.decoder(torch.tensor([[5]]), _states(), attention_mask=torch.ones(1, 1), past_key_values=cache)


def test_labels_of_another_length_are_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="labels has shape"):
        model(torch.tensor([[5]]), decoder_input_ids=torch.tensor([[5, 6]]), labels=torch.tensor([[5]]))


def test_labels_without_a_start_id_are_refused(make_model: Any) -> None:
    model = make_model(decoder_start_token_id=None)
    with pytest.raises(ValueError, match="decoder_start_token_id is None"):
        model(torch.tensor([[5]]), labels=torch.tensor([[5, 6]]))


def test_layer_index_outside_the_stack_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="layer_idx = 3"):
        type(model.encoder.layers[0].self_attn)(model.config, 3)
