"""Wrong types, dtypes, depths and batches are one clear `ValueError` on every backend; what is too long is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

SOURCE = torch.arange(5, 17).reshape(2, 6)
TARGET = torch.arange(20, 28).reshape(2, 4)
SIDES = ["encoder inputs_embeds", "decoder inputs_embeds", "encoder_hidden_states"]
WRONG_TYPES = {"list": torch.Tensor.tolist, "ndarray": torch.Tensor.numpy}


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(attn_implementation=request.param)


def _states(length: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(2, length, 40, dtype=dtype)


def _with_states(model: Any, side: str, dtype: torch.dtype) -> Any:
    if side == "encoder_hidden_states":
        return model(encoder_outputs=(_states(6, dtype),), decoder_input_ids=TARGET)
    if side == "encoder inputs_embeds":
        return model(inputs_embeds=_states(6, dtype), decoder_input_ids=TARGET)
    return model(SOURCE, decoder_inputs_embeds=_states(4, dtype))


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
    model(encoder_outputs=(_states(6),), decoder_input_ids=TARGET, past_key_values=cache)
    model(encoder_outputs=(_states(6, torch.float64),), decoder_input_ids=TARGET[:, :1], past_key_values=cache)


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
        ("inputs_embeds", _states(6)),
        ("decoder_inputs_embeds", _states(4)),
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


def test_encoder_outputs_that_are_a_bare_tensor_are_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="encoder_outputs is a Tensor; expected what the encoder returns, or a tuple"):
        model(encoder_outputs=_states(6), decoder_input_ids=TARGET)


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
