"""What a caller can get wrong is one clear `ValueError` on every backend, and the encoder is never fed in chunks."""

import re
from typing import Any

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache

SOURCE = torch.arange(5, 17).reshape(2, 6)
TARGET = torch.arange(20, 28).reshape(2, 4)


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(attn_implementation=request.param)


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


@pytest.mark.parametrize("shape", [(2, 3), (2, 5), (1, 4), (3, 4)])
def test_labels_of_another_shape_than_the_decoder_input_are_refused(model: Any, shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=rf"labels has shape {re.escape(str(shape))}; expected \(2, 4\)"):
        model(SOURCE, decoder_input_ids=TARGET, labels=torch.full(shape, 7))


@pytest.mark.parametrize("shape", [(2, 5), (2, 7), (1, 6), (3, 6)])
@pytest.mark.parametrize("given", ["ids", "encoder_outputs", "positions"])
def test_padding_mask_of_another_length_or_batch_than_the_source_is_refused(
    model: Any, shape: tuple[int, int], given: str
) -> None:
    source = {"encoder_outputs": (_states(2, 6),)} if given == "encoder_outputs" else {"input_ids": SOURCE}
    positions = {"position_ids": torch.arange(6)[None]} if given == "positions" else {}
    with pytest.raises(ValueError, match=rf"mask.* has shape {re.escape(str(shape))}; expected \(2, 6\)"):
        model(**source, **positions, attention_mask=torch.ones(shape), decoder_input_ids=TARGET)


@pytest.mark.parametrize("shape", [(2, 3), (2, 5), (1, 4), (3, 4)])
@pytest.mark.parametrize("positions", [None, torch.arange(4)[None]], ids=["counted", "given"])
def test_padding_mask_of_another_length_or_batch_than_the_target_is_refused(
    model: Any, shape: tuple[int, int], positions: torch.Tensor | None
) -> None:
    with pytest.raises(ValueError, match=rf"mask.* has shape {re.escape(str(shape))}; expected \(2, 4\)"):
        model(SOURCE, None, TARGET, torch.ones(shape), decoder_position_ids=positions)


FOUR_DIMENSIONAL = {  # side: (the right shape, the name the error gives)
    "encoder": ((2, 1, 6, 6), "attention_mask"),
    "decoder": ((2, 1, 4, 4), "decoder attention_mask"),
    "cross": ((2, 1, 4, 6), "encoder_attention_mask"),
}


def _with_mask(model: Any, side: str, mask: torch.Tensor) -> Any:
    if side == "encoder":
        return model.encoder(SOURCE, mask)
    if side == "decoder":
        return model(SOURCE, None, TARGET, mask)
    return model(None, mask, TARGET, encoder_outputs=(_states(2, 6),))


@pytest.mark.parametrize("axis", [0, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
@pytest.mark.parametrize("side", FOUR_DIMENSIONAL)
def test_four_dimensional_mask_of_another_batch_or_length_is_refused(
    model: Any, side: str, dtype: torch.dtype, axis: int
) -> None:
    right, name = FOUR_DIMENSIONAL[side]
    wrong = tuple(size + (index == axis) for index, size in enumerate(right))
    message = f"{name} has shape {wrong}; expected ({right[0]}, 1 or heads, 1 or {right[2]}, {right[3]})"
    with pytest.raises(ValueError, match=re.escape(message)):
        _with_mask(model, side, torch.ones(wrong, dtype=dtype))


@pytest.mark.parametrize("heads", [2, 3])
@pytest.mark.parametrize("side", FOUR_DIMENSIONAL)
def test_mask_for_another_number_of_heads_is_refused(model: Any, side: str, heads: int) -> None:
    right, _ = FOUR_DIMENSIONAL[side]
    with pytest.raises(ValueError, match=rf"mask has {heads} heads; expected 1 or num_attention_heads = 6"):
        _with_mask(model, side, torch.zeros(right[0], heads, *right[2:]))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("side", FOUR_DIMENSIONAL)
def test_additive_mask_with_nan_or_plus_infinity_is_refused(model: Any, side: str, value: float) -> None:
    mask = torch.zeros(FOUR_DIMENSIONAL[side][0])
    mask[1, 0, 2, 3] = value
    with pytest.raises(ValueError, match=r"NaN or \+inf; expected 0 where visible, -inf where hidden"):
        _with_mask(model, side, mask)


@pytest.mark.parametrize("side", FOUR_DIMENSIONAL)
def test_four_dimensional_mask_of_integers_is_refused(model: Any, side: str) -> None:
    with pytest.raises(ValueError, match=r"4-D of dtype torch.int64; expected bool"):
        _with_mask(model, side, torch.ones(FOUR_DIMENSIONAL[side][0], dtype=torch.long))


@pytest.mark.parametrize(
    "mask", [torch.ones(2, 6, dtype=torch.complex64), torch.full((2, 6), 0.5)], ids=["complex", "0.5"]
)
def test_padding_mask_that_is_not_zeros_and_ones_is_refused(model: Any, mask: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"mask has dtype torch.complex64|mask is 2-D and floating but not 0/1"):
        model(SOURCE, mask, TARGET)


@pytest.mark.parametrize("dimensions", [1, 3])
def test_mask_of_one_or_three_dimensions_is_refused(model: Any, dimensions: int) -> None:
    with pytest.raises(ValueError, match=rf"attention_mask has {dimensions} dimensions.*expected 2 or 4"):
        model(SOURCE, torch.ones((2, 6, 6)[:dimensions]), TARGET)


@pytest.mark.parametrize(("argument", "length"), [("position_ids", 6), ("decoder_position_ids", 4)])
@pytest.mark.parametrize("given", ["ids", "encoder_outputs"])
def test_positions_of_another_shape_or_dtype_are_refused(model: Any, argument: str, length: int, given: str) -> None:
    source = {"encoder_outputs": (_states(2, 6),)} if given == "encoder_outputs" else {"input_ids": SOURCE}
    for shape in ((2, length + 1), (3, length), (length,), (2, length, 1)):
        with pytest.raises(
            ValueError, match=rf"position_ids has shape {re.escape(str(shape))}; expected \(2, {length}\)"
        ):
            model(**source, decoder_input_ids=TARGET, **{argument: torch.zeros(shape, dtype=torch.long)})
    with pytest.raises(ValueError, match=r"position_ids has dtype torch.float32; expected integers"):
        model(**source, decoder_input_ids=TARGET, **{argument: torch.zeros(2, length)})


@pytest.mark.parametrize("batch", [1, 3])
def test_encoder_outputs_of_another_batch_are_refused(model: Any, batch: int) -> None:
    with pytest.raises(ValueError, match=rf"encoder_hidden_states has shape \({batch}, 6, 40\); expected \(2, length"):
        model(decoder_input_ids=TARGET, encoder_outputs=(_states(batch, 6),))


def test_embeddings_and_encoder_states_of_integers_are_refused(model: Any) -> None:
    with pytest.raises(ValueError, match=r"inputs_embeds has dtype torch.int64; expected a floating one"):
        model(inputs_embeds=_states(2, 6).long(), decoder_input_ids=TARGET)
    with pytest.raises(ValueError, match=r"encoder_hidden_states has dtype torch.int64; expected a floating one"):
        model(decoder_input_ids=TARGET, encoder_outputs=(_states(2, 6).long(),))


@torch.no_grad()
def test_source_or_target_without_tokens_is_no_error(model: Any) -> None:
    assert tuple(model(SOURCE[:, :0], decoder_input_ids=TARGET).logits.shape) == (2, 4, 97)
    assert tuple(model(SOURCE, decoder_input_ids=TARGET[:, :0]).logits.shape) == (2, 0, 97)
    assert bool(model(SOURCE[:, :0], decoder_input_ids=TARGET).logits.isfinite().all())


def test_labels_without_a_start_id_are_refused(make_model: Any) -> None:
    model = make_model(decoder_start_token_id=None)
    with pytest.raises(ValueError, match="decoder_start_token_id is None"):
        model(torch.tensor([[5]]), labels=torch.tensor([[5, 6]]))


def test_layer_index_outside_the_stack_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="layer_idx = 3"):
        type(model.encoder.layers[0].self_attn)(model.config, 3)


def test_a_cache_has_two_names_and_is_one(model: Any) -> None:
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    model.decoder(torch.tensor([[5]]), _states(1, 3), cache=cache)
    assert cache.get_seq_length() == 1
    with pytest.raises(ValueError, match="two names of the same argument"):
        model.decoder(torch.tensor([[5]]), _states(1, 3), past_key_values=cache, cache=cache)
    with pytest.raises(ValueError, match="two names of the same argument"):
        model(torch.tensor([[5]]), decoder_input_ids=torch.tensor([[5]]), past_key_values=cache, cache=cache)
