"""The same input along different paths: full, chunked, cached, standalone, other backends, perturbed."""

from typing import Any

import pytest
import torch
from transformers import AttentionInterface, DynamicCache, EncoderDecoderCache

from qwen3_encdec import eager_attention_forward

WINDOWED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 3}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(params=[{}, WINDOWED, {"rotate_encoder_keys": False}], ids=["full", "windowed", "unrotated"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(**request.param)


def _masks() -> tuple[torch.Tensor, torch.Tensor]:
    source, target = torch.ones(3, 6), torch.ones(3, 8)
    source[1, 4:], source[2, :2] = 0, 0
    target[1, 6:], target[2, :3] = 0, 0
    return source, target


@pytest.mark.parametrize("chunks", [[8], [3, 5], [1] * 8, [3, 1, 1, 3]], ids=str)
@pytest.mark.parametrize("evicting", [False, True])
@torch.no_grad()
def test_chunked_and_stepwise_decode_equal_the_full_forward(
    model: Any, ids: Any, chunks: list[int], evicting: bool
) -> None:
    (source, target), (source_mask, target_mask) = (ids(3, 6), ids(3, 8, seed=4)), _masks()
    expected = model(source, source_mask, target, target_mask, use_cache=False)
    own = DynamicCache(config=model.config) if evicting else DynamicCache()
    cache = EncoderDecoderCache(own, DynamicCache())
    encoded, steps, done = model.encoder(source, source_mask), [], 0
    for size in chunks:
        part, seen = target[:, done : done + size], target_mask[:, : done + size]
        output = model(
            None, source_mask, part, seen, encoder_outputs=encoded, past_key_values=cache, output_hidden_states=True
        )
        steps.append(output.logits)
        done += size
    assert expected.past_key_values is None
    visible = target_mask.bool()
    torch.testing.assert_close(torch.cat(steps, 1)[visible], expected.logits[visible], **CLOSE)


@torch.no_grad()
def test_embeddings_instead_of_ids_give_the_same_bits(model: Any, ids: Any) -> None:
    source, target = ids(2, 5), ids(2, 4, seed=1)
    expected = model(source, decoder_input_ids=target).logits
    actual = model(inputs_embeds=model.shared(source), decoder_inputs_embeds=model.shared(target)).logits
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@torch.no_grad()
def test_standalone_layers_give_the_stacks_bits(model: Any, ids: Any) -> None:
    (source, target), (source_mask, target_mask) = (ids(3, 6), ids(3, 8, seed=4)), _masks()
    expected = model.encoder(source, source_mask, output_hidden_states=True)
    states = model.shared(source)
    for layer in model.encoder.layers:
        states, _ = layer(states, source_mask)
    torch.testing.assert_close(model.encoder.norm(states), expected.last_hidden_state, rtol=0, atol=0)
    memory = expected.last_hidden_state
    decoded = model.decoder(target, memory, target_mask, source_mask)
    states = model.shared(target)
    for layer in model.decoder.layers:
        states, _, cache = layer(states, memory, target_mask, source_mask, use_cache=True)
        assert cache.self_attention_cache.get_seq_length(layer.merged_attn.layer_idx) == 8
    torch.testing.assert_close(model.decoder.norm(states), decoded.last_hidden_state, rtol=0, atol=0)


@torch.no_grad()
def test_standalone_attention_decodes_with_its_own_cache(model: Any) -> None:
    torch.manual_seed(0)
    attention = model.decoder.layers[2].merged_attn
    states, memory = torch.randn(2, 5, 40), torch.randn(2, 4, 40)
    expected, weights, _ = attention(states, memory, output_attentions=True)
    assert tuple(weights.shape) == (2, 6, 5, 9)
    cache, outputs = None, []
    for step in range(5):
        output, _, cache = attention(states[:, step : step + 1], memory, past_key_value=cache, use_cache=True)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, 1), expected, **CLOSE)


def _check_backend(model: Any, ids: Any, backend: str) -> None:
    (source, target), (source_mask, target_mask) = (ids(3, 6), ids(3, 8, seed=4)), _masks()
    expected = model(source, source_mask, target, target_mask)
    model.set_attn_implementation(backend)
    actual = model(source, source_mask, target, target_mask)
    visible = target_mask.bool()
    torch.testing.assert_close(actual.logits[visible], expected.logits[visible], **CLOSE)
    seen = torch.cat([target_mask, torch.ones(3, 1)], 1)
    memory = (actual.encoder_last_hidden_state,)
    arguments = (None, source_mask, target[:, :1], seen)
    step = model(*arguments, encoder_outputs=memory, past_key_values=actual.past_key_values)
    model.set_attn_implementation("eager")
    again = model(*arguments, encoder_outputs=memory, past_key_values=expected.past_key_values)
    torch.testing.assert_close(step.logits, again.logits, **CLOSE)


@torch.no_grad()
def test_sdpa_agrees_with_eager(model: Any, ids: Any) -> None:
    _check_backend(model, ids, "sdpa")


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own, inside its compiler
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("stance", ["force_eager", pytest.param("default", marks=pytest.mark.slow)])
@torch.no_grad()
def test_flex_attention_agrees_with_eager(make_model: Any, ids: Any, stance: str) -> None:
    types = ["sliding_attention", "full_attention"]
    model = make_model(num_hidden_layers=2, layer_types=types, sliding_window=3)
    with torch.compiler.set_stance(stance):
        _check_backend(model, ids, "flex_attention")


def test_flex_attention_refuses_an_additive_bias(make_model: Any, ids: Any) -> None:
    model = make_model()
    model.set_attn_implementation("flex_attention")
    with pytest.raises(ValueError, match="flex_attention takes masks that show or hide"):
        model.encoder(ids(1, 3), torch.full((1, 1, 3, 3), 0.5))


@torch.no_grad()
def test_registered_attention_sees_the_eager_mask_and_arguments(make_model: Any, ids: Any, monkeypatch: Any) -> None:
    seen: list[Any] = []

    def spy(module: Any, query: Any, key: Any, value: Any, mask: Any, **kwargs: Any) -> Any:
        seen.append((module, query.shape, key.shape, mask, sorted(kwargs)))
        return eager_attention_forward(module, query, key, value, mask, **kwargs)

    monkeypatch.setitem(AttentionInterface._global_mapping, "spy", spy)
    model = make_model()
    expected = model(ids(2, 4), decoder_input_ids=ids(2, 3)).logits
    model.set_attn_implementation("spy")
    torch.testing.assert_close(model(ids(2, 4), decoder_input_ids=ids(2, 3)).logits, expected, rtol=0, atol=0)
    assert len(seen) == 6
    module, query, key, mask, arguments = seen[-1]
    assert (tuple(query), tuple(key), tuple(mask.shape)) == ((2, 6, 3, 10), (2, 2, 7, 10), (2, 1, 3, 7))
    assert arguments == ["dropout", "scaling"]
    assert module.is_causal is False and module.num_key_value_groups == 3
    assert (mask[0, 0, 0] == 0).tolist() == [True, False, False, True, True, True, True]


@torch.no_grad()
def test_output_attentions_runs_eagerly_whatever_the_backend(make_model: Any, ids: Any) -> None:
    model = make_model()
    expected = model(ids(2, 4), decoder_input_ids=ids(2, 3), output_attentions=True)
    model.set_attn_implementation("sdpa")
    actual = model(ids(2, 4), decoder_input_ids=ids(2, 3), output_attentions=True)
    torch.testing.assert_close(actual.logits, expected.logits, rtol=0, atol=0)
    own, cross = actual.decoder_attentions, actual.cross_attentions
    assert [tuple(w.shape) for w in own] == [(2, 6, 3, 3)] * 3
    assert [tuple(w.shape) for w in cross] == [(2, 6, 3, 4)] * 3
    torch.testing.assert_close(own[0].sum(-1) + cross[0].sum(-1), torch.ones(2, 6, 3))
    assert tuple(actual.encoder_attentions[0].shape) == (2, 6, 4, 4)


@torch.no_grad()
def test_plain_tuples_hold_the_named_fields(make_model: Any, ids: Any) -> None:
    model = make_model()
    named = model.encoder(ids(1, 3), output_hidden_states=True)
    last, states, attentions = model.encoder(ids(1, 3), output_hidden_states=True, return_dict=False)
    torch.testing.assert_close(last, named.last_hidden_state, rtol=0, atol=0)
    assert len(states) == 4 and attentions is None
    decoded = model.decoder(ids(1, 3), last, return_dict=False, use_cache=False)
    assert len(decoded) == 4 and decoded[1:] == (None, None, None)
    whole = model(ids(1, 3), decoder_input_ids=ids(1, 2), return_dict=False, use_cache=False)
    assert isinstance(whole, tuple) and tuple(whole[0].shape) == (1, 2, 97)


@torch.no_grad()
def test_encoder_of_length_zero_leaves_a_causal_model(model: Any, ids: Any) -> None:
    target = ids(2, 6)
    expected = model(torch.empty(2, 0, dtype=torch.long), decoder_input_ids=target).logits
    cache, steps = None, []
    for step in range(6):
        output = model.decoder(target[:, step : step + 1], torch.zeros(2, 0, 40), past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        steps.append(model.lm_head(output.last_hidden_state))
    torch.testing.assert_close(torch.cat(steps, 1), expected, **CLOSE)
    assert not cache.is_updated
