"""What a caller can get wrong is one clear `ValueError` on every backend; what is too long is told."""

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

SOURCE = torch.arange(5, 17).reshape(2, 6)
TARGET = torch.arange(20, 28).reshape(2, 4)


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(attn_implementation=request.param)


def _states(batch: int = 1, length: int = 3) -> torch.Tensor:
    return torch.ones(batch, length, 40)


ONE = torch.tensor([[5]])
REFUSED: list[tuple[Callable[[Any], object], str]] = [
    (lambda m: m(decoder_input_ids=ONE), "no encoder input"),
    (lambda m: m(ONE), "no decoder input"),
    (lambda m: m.decoder(ONE), "encoder_hidden_states is missing"),
    (lambda m: m.decoder(ONE, torch.ones(2, 3, 40)), "encoder_hidden_states has shape"),
    (lambda m: m.decoder(ONE, torch.ones(1, 3, 41)), "encoder_hidden_states has shape"),
    (lambda m: m.decoder(ONE, torch.ones(3, 40)), "encoder_hidden_states has shape"),
    (lambda m: m.encoder(torch.ones(1, 2)), "dtype torch"),
    (lambda m: m.encoder(inputs_embeds=torch.ones(1, 2, 39)), "hidden_size = 40"),
    (lambda m: m.encoder(ONE, past_key_values=DynamicCache()), "whole input in one call"),
    (lambda m: m.decoder(ONE, _states(), past_key_values=DynamicCache()), "expected an EncoderDecoderCache"),
    (lambda m: m(SOURCE, torch.ones(2, 6, dtype=torch.complex64), TARGET), "mask has dtype torch.complex64"),
    (lambda m: m(SOURCE, torch.ones(2), TARGET), "attention_mask has 1 dimensions.*expected 2 or 4"),
    (lambda m: m(SOURCE, torch.ones(2, 6, 6), TARGET), "attention_mask has 3 dimensions.*expected 2 or 4"),
    (lambda m: _with_memory(m, _states(1, 6)), r"encoder_hidden_states has shape \(1, 6, 40\); expected \(2, length"),
    (lambda m: _with_memory(m, _states(3, 6)), r"encoder_hidden_states has shape \(3, 6, 40\); expected \(2, length"),
    (lambda m: _with_memory(m, _states(2, 6).long()), "states has dtype torch.int64; expected a floating one"),
    (lambda m: m(inputs_embeds=_states(2, 6).long(), decoder_input_ids=TARGET), "inputs_embeds has dtype torch.int64"),
    (lambda m: m(encoder_outputs=_states(2, 6), decoder_input_ids=TARGET), "is a Tensor; expected what the encoder"),
    (lambda m: type(m.encoder.layers[0].self_attn)(m.config, 3), "layer_idx = 3"),
]  # fmt: skip


def _with_memory(model: Any, states: torch.Tensor) -> Any:
    return model(decoder_input_ids=TARGET, encoder_outputs=(states,))


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_a_call_that_cannot_be_is_refused_in_words(model: Any, call: Callable[[Any], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(model)


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


@torch.no_grad()
def test_source_or_target_without_tokens_is_no_error(model: Any) -> None:
    assert tuple(model(SOURCE[:, :0], decoder_input_ids=TARGET).logits.shape) == (2, 4, 97)
    assert tuple(model(SOURCE, decoder_input_ids=TARGET[:, :0]).logits.shape) == (2, 0, 97)
    assert bool(model(SOURCE[:, :0], decoder_input_ids=TARGET).logits.isfinite().all())


def test_labels_without_a_start_id_are_refused(make_model: Any) -> None:
    model = make_model(decoder_start_token_id=None)
    with pytest.raises(ValueError, match="decoder_start_token_id is None"):
        model(torch.tensor([[5]]), labels=torch.tensor([[5, 6]]))


def test_a_cache_has_two_names_and_is_one(model: Any) -> None:
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    model.decoder(torch.tensor([[5]]), _states(1, 3), cache=cache)
    assert cache.get_seq_length() == 1
    with pytest.raises(ValueError, match="two names of the same argument"):
        model.decoder(torch.tensor([[5]]), _states(1, 3), past_key_values=cache, cache=cache)
    with pytest.raises(ValueError, match="two names of the same argument"):
        model(torch.tensor([[5]]), decoder_input_ids=torch.tensor([[5]]), past_key_values=cache, cache=cache)


SIDES = ["encoder inputs_embeds", "decoder inputs_embeds", "encoder_hidden_states"]
WRONG_TYPES = {"list": torch.Tensor.tolist, "ndarray": torch.Tensor.numpy}


def _with_states(model: Any, side: str, dtype: torch.dtype) -> Any:
    if side == "encoder_hidden_states":
        return model(encoder_outputs=(_states(2, 6).to(dtype),), decoder_input_ids=TARGET)
    if side == "encoder inputs_embeds":
        return model(inputs_embeds=_states(2, 6).to(dtype), decoder_input_ids=TARGET)
    return model(SOURCE, decoder_inputs_embeds=_states(2, 4).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("side", SIDES)
def test_states_of_another_dtype_than_the_models_are_refused(model: Any, side: str, dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=rf"{side} has dtype {dtype}; expected the model's, torch.float32"):
        _with_states(model, side, dtype)


@pytest.mark.parametrize("side", SIDES)
def test_float32_states_are_refused_by_a_bfloat16_model(make_model: Any, side: str) -> None:
    with pytest.raises(ValueError, match=rf"{side} has dtype torch.float32; expected the model's, torch.bfloat16"):
        _with_states(make_model().bfloat16(), side, torch.float32)


@pytest.mark.parametrize("side", SIDES)
@torch.no_grad()
def test_autocast_takes_states_of_its_own_dtype(model: Any, side: str) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert bool(_with_states(model, side, torch.bfloat16).logits.isfinite().all())


@torch.no_grad()
def test_states_whose_keys_are_cached_may_be_of_any_dtype(model: Any) -> None:
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    model(encoder_outputs=(_states(2, 6),), decoder_input_ids=TARGET, past_key_values=cache)
    model(encoder_outputs=(_states(2, 6).double(),), decoder_input_ids=TARGET[:, :1], past_key_values=cache)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@torch.no_grad()
def test_a_cache_of_a_shallower_model_is_refused(model: Any, make_model: Any, kind: str) -> None:
    shallow = make_model(num_hidden_layers=2)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    if kind == "static":
        own, memory = (StaticCache(config=shallow.config, max_cache_len=slots) for slots in (9, 6))
        cache = EncoderDecoderCache(own, memory)
    shallow(SOURCE, decoder_input_ids=TARGET, past_key_values=cache)
    with pytest.raises(ValueError, match="self-attention cache has 2 layers; expected num_hidden_layers = 3"):
        model(SOURCE, decoder_input_ids=TARGET[:, :1], past_key_values=cache)


@pytest.mark.parametrize("kind", WRONG_TYPES)
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("input_ids", SOURCE),
        ("attention_mask", torch.ones_like(SOURCE)),
        ("position_ids", torch.arange(6)[None]),
        ("decoder_input_ids", TARGET),
        ("decoder_attention_mask", torch.ones_like(TARGET)),
        ("decoder_position_ids", torch.arange(4)[None]),
        ("inputs_embeds", _states(2, 6)),
        ("decoder_inputs_embeds", _states(2, 4)),
        ("labels", TARGET),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_no_tensor_is_refused_by_its_name(model: Any, argument: str, value: torch.Tensor, kind: str) -> None:
    inputs = {"input_ids": SOURCE, "decoder_input_ids": TARGET, argument: WRONG_TYPES[kind](value)}
    if argument.endswith("inputs_embeds"):
        del inputs[argument.replace("inputs_embeds", "input_ids")]
    name = argument.removeprefix("decoder_")
    with pytest.raises(ValueError, match=rf"{name}.* is a {kind}; expected a tensor"):
        model(**inputs)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_mask_that_is_no_tensor_is_refused_where_positions_are_given_too(model: Any, side: str) -> None:
    prefix = "" if side == "encoder" else "decoder_"
    length = 6 if side == "encoder" else 4
    given = {f"{prefix}position_ids": torch.arange(length)[None], f"{prefix}attention_mask": [[1] * length] * 2}
    with pytest.raises(ValueError, match=r"attention_mask.* is a list; expected a tensor"):
        model(SOURCE, decoder_input_ids=TARGET, **given)


@pytest.mark.parametrize("value", [0.5, -1.0, 2.0, float("nan")])
@pytest.mark.parametrize("argument", ["attention_mask", "decoder_attention_mask"])
def test_a_floating_padding_mask_of_other_numbers_than_0_and_1_is_refused(
    model: Any, argument: str, value: float
) -> None:
    mask = torch.ones(SOURCE.shape if argument == "attention_mask" else TARGET.shape)
    mask[1, 0] = value
    with pytest.raises(ValueError, match=r"attention_mask.* is 2-D and floating but not 0/1"):
        model(SOURCE, decoder_input_ids=TARGET, **{argument: mask})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.bool], ids=str)
@pytest.mark.parametrize("argument", ["input_ids", "decoder_input_ids", "labels"])
def test_ids_of_no_integer_dtype_are_refused(model: Any, argument: str, dtype: torch.dtype) -> None:
    inputs = {"input_ids": SOURCE, "decoder_input_ids": TARGET, "labels": TARGET}
    inputs[argument] = inputs[argument].to(dtype)
    name = argument.removeprefix("decoder_")
    with pytest.raises(ValueError, match=rf"{name} has shape .* and dtype {dtype}; expected integers"):
        model(**inputs)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
@pytest.mark.parametrize("argument", ["input_ids", "decoder_input_ids"])
def test_ids_too_narrow_for_an_embedding_are_refused(model: Any, argument: str, dtype: torch.dtype) -> None:
    inputs = {"input_ids": SOURCE, "decoder_input_ids": TARGET}
    inputs[argument] = inputs[argument].to(dtype)
    with pytest.raises(ValueError, match=rf"input_ids has dtype {dtype}; expected int64 or int32"):
        model(**inputs)


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize(("source", "target"), [(2, 1), (1, 2)])
def test_generate_refuses_decoder_ids_of_another_batch(model: Any, source: int, target: int, beams: int) -> None:
    with pytest.raises(ValueError, match=rf"decoder_input_ids has shape \({target}, 4\), input_ids \({source}, 6\)"):
        model.generate(SOURCE[:source], decoder_input_ids=TARGET[:target], max_new_tokens=2, num_beams=beams)


@pytest.mark.parametrize("name", ["input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"])
def test_generate_refuses_what_is_no_tensor(model: Any, name: str) -> None:
    inputs = {"input_ids": SOURCE, "decoder_input_ids": TARGET}
    inputs[name] = [[1, 1], [1, 1]]  # type: ignore[assignment]
    with pytest.raises(ValueError, match=f"{name} is a list; expected a tensor"):
        model.generate(**inputs, max_new_tokens=2)


@pytest.fixture
def reminders() -> Iterator[list[str]]:
    """What transformers logs in generation: it keeps its records from the root."""
    logger, seen = logging.getLogger("transformers.generation.stopping_criteria"), []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    yield seen
    logger.removeHandler(handler)


def test_generating_past_the_longest_position_is_told_and_goes_on(make_model: Any, reminders: list[str]) -> None:
    short, long = make_model(max_position_embeddings=8), make_model(max_position_embeddings=64)
    options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
    expected = long.generate(SOURCE, **options)
    assert not reminders
    assert short.generate(SOURCE, **options).tolist() == expected.tolist()
    assert expected.shape == (2, 13) and any("maximum length (8)" in text for text in reminders)
