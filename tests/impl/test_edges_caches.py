"""A cache that cannot hold a call's keys, or belongs to another request or model, is refused before it is written."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import Cache, DynamicCache, EncoderDecoderCache, StaticCache

from qwen3_encdec.cache_name import CACHE

START = torch.tensor([[3, 5], [3, 6]])
WINDOWED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 3}


@pytest.fixture(scope="module", params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(attn_implementation=request.param)


@torch.no_grad()
def _step(model: Any, cache: Any, batch: int = 2, length: int = 4, encoder_length: int = 6) -> Any:
    states = torch.linspace(-1, 1, batch * encoder_length * 40).reshape(batch, encoder_length, 40)
    ids = torch.arange(5, 5 + batch * length).reshape(batch, length)
    return model(encoder_outputs=(states,), decoder_input_ids=ids, past_key_values=cache)


def _dynamic() -> EncoderDecoderCache:
    return EncoderDecoderCache(DynamicCache(), DynamicCache())


def _static(model: Any, length: int, encoder_length: int = 6) -> EncoderDecoderCache:
    cross: Cache = StaticCache(config=model.config, max_cache_len=encoder_length)
    if model.config.sliding_window is not None:
        cross = DynamicCache()
    return EncoderDecoderCache(StaticCache(config=model.config, max_cache_len=length), cross)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("encoder_length", [0, 6])
@pytest.mark.parametrize("make", [lambda model: _dynamic(), lambda model: _static(model, 9)], ids=["dynamic", "static"])
def test_cache_of_another_batch_size_is_refused(
    model: Any, make: Callable[[Any], EncoderDecoderCache], encoder_length: int, batch: int
) -> None:
    cache = make(model)
    _step(model, cache, batch, 2, encoder_length)
    with pytest.raises(ValueError, match=rf"= \({batch}, 2, 10\) in layer 0; expected \(2, 2, 10\)"):
        _step(model, cache, 2, 2, encoder_length)


def test_memory_set_aside_for_another_batch_size_is_refused(model: Any) -> None:
    cache = _static(model, 9)
    cache.self_attention_cache.early_initialization(3, 2, 10, torch.float32, torch.device("cpu"))
    with pytest.raises(ValueError, match=r"self-attention cache holds keys of .* \(3, 2, 10\)"):
        _step(model, cache)


@pytest.mark.parametrize("other", [{"num_key_value_heads": 3}, {"head_dim": 12}, {"num_hidden_layers": 5}], ids=str)
def test_cache_of_another_model_is_refused(model: Any, make_model: Any, other: dict[str, int]) -> None:
    cache = _dynamic()
    _step(make_model(**other), cache)
    with pytest.raises(ValueError, match=r"another request or model|has 5 layers; expected num_hidden_layers = 3"):
        _step(model, cache)


@pytest.mark.parametrize(("length", "steps"), [(3, [4]), (5, [4, 4]), (4, [4, 1]), (5, [1, 3, 2])], ids=str)
def test_static_cache_whose_length_is_exceeded_is_refused_and_keeps_what_it_holds(
    model: Any, length: int, steps: list[int]
) -> None:
    cache = _static(model, length)
    for query in steps[:-1]:
        _step(model, cache, length=query)
    held = sum(steps[:-1])
    kept = [layer.keys.clone() for layer in cache.self_attention_cache.layers if held]
    with pytest.raises(ValueError, match=rf"room for {length} tokens in layer 0 and holds {held}; {steps[-1]} more"):
        _step(model, cache, length=steps[-1])
    assert cache.get_seq_length() == held
    for layer, before in zip(cache.self_attention_cache.layers, kept, strict=False):
        assert torch.equal(layer.keys, before)


def test_full_layers_of_a_windowed_static_cache_are_checked_too(model: Any, make_model: Any) -> None:
    windowed = make_model(attn_implementation=model.config._attn_implementation, **WINDOWED)
    cache = _static(windowed, 5)
    _step(windowed, cache)
    with pytest.raises(ValueError, match="room for 5 tokens in layer 1 and holds 4; 4 more"):
        _step(windowed, cache)


def test_windowed_layers_alone_run_past_the_length_of_a_static_cache(model: Any, make_model: Any) -> None:
    types = {"layer_types": ["sliding_attention"] * 3, "sliding_window": 3}
    windowed = make_model(attn_implementation=model.config._attn_implementation, **types)
    cache, growing = _static(windowed, 5), _dynamic()
    for _ in range(3):
        static, dynamic = _step(windowed, cache), _step(windowed, growing)
        torch.testing.assert_close(static.logits, dynamic.logits, rtol=1e-4, atol=1e-4)


def test_static_cache_without_room_for_the_encoders_keys_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="room for 5 encoder keys in layer 0; encoder_hidden_states has length 6"):
        _step(model, _static(model, 9, encoder_length=5))


def test_spare_slots_of_a_static_encoder_cache_change_nothing(model: Any) -> None:
    exact, spare = _static(model, 9), _static(model, 9, encoder_length=8)
    for _ in range(2):
        torch.testing.assert_close(_step(model, spare).logits, _step(model, exact).logits, rtol=0, atol=0)


@torch.no_grad()
def test_generate_with_a_cache_of_another_batch_or_without_room_is_refused(model: Any, ids: Any) -> None:
    other = _dynamic()
    _step(model, other, batch=3, length=1)
    with pytest.raises(ValueError, match=r"= \(3, 2, 10\) in layer 0"):
        model.generate(ids(2, 6), decoder_input_ids=START, **{CACHE: other}, max_new_tokens=2, do_sample=False)
    with pytest.raises(ValueError, match="room for 3 tokens in layer 0 and holds 3; 1 more"):
        model.generate(ids(2, 6), **{CACHE: _static(model, 3)}, max_new_tokens=8, do_sample=False)


def test_generate_without_ids_beyond_those_of_the_cache_is_refused(model: Any, ids: Any) -> None:
    cache = _dynamic()
    _step(model, cache, length=2)
    with pytest.raises(ValueError, match="decoder_input_ids has length 2, past_key_values holds 2; pass ids beyond it"):
        model.generate(ids(2, 6), decoder_input_ids=START, **{CACHE: cache}, max_new_tokens=2, do_sample=False)
