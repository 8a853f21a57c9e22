"""What a call shows on request: own and encoder weights apart, and every hidden state, with and without a cache."""

from typing import Any

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from qwen3_encdec.cache_name import CACHE

BACKENDS = ["eager", "sdpa"]
LAYERS, HEADS, SOURCE = 3, 6, 5


@pytest.fixture(params=BACKENDS)
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(attn_implementation=request.param)


def _cache(model: Any, kind: str) -> EncoderDecoderCache | None:
    if kind == "none":
        return None
    if kind == "dynamic":
        return EncoderDecoderCache(DynamicCache(), DynamicCache())
    own, memory = (StaticCache(config=model.config, max_cache_len=slots) for slots in (9, SOURCE))
    return EncoderDecoderCache(own, memory)


@pytest.mark.parametrize(("kind", "widths"), [("none", [4]), ("dynamic", [4, 5]), ("static", [9, 9])])
@torch.no_grad()
def test_weights_are_split_at_the_encoders_first_key(model: Any, ids: Any, kind: str, widths: list[int]) -> None:
    cache, mask, target = _cache(model, kind), torch.ones(2, SOURCE, dtype=torch.long), ids(2, 5, seed=4)
    mask[1, 3:] = 0
    for width, part in zip(widths, (target[:, :4], target[:, 4:]), strict=False):
        shown = model(ids(2, SOURCE), mask, part, past_key_values=cache, output_attentions=True)
        query = part.shape[1]
        assert [tuple(weights.shape) for weights in shown.decoder_attentions] == [(2, HEADS, query, width)] * LAYERS
        assert [tuple(weights.shape) for weights in shown.cross_attentions] == [(2, HEADS, query, SOURCE)] * LAYERS
        for own, cross in zip(shown.decoder_attentions, shown.cross_attentions, strict=True):
            torch.testing.assert_close(own.sum(-1) + cross.sum(-1), torch.ones(2, HEADS, query))
            assert bool((cross[1, :, :, 3:] == 0).all()) and bool((cross[0] > 0).any())


@torch.no_grad()
def test_a_steps_weights_are_the_last_row_of_the_whole_forward(model: Any, ids: Any) -> None:
    source, target = ids(2, SOURCE), ids(2, 5, seed=4)
    whole = model(source, decoder_input_ids=target, output_attentions=True)
    cache = _cache(model, "static")
    model(source, decoder_input_ids=target[:, :4], past_key_values=cache)
    step = model(source, decoder_input_ids=target[:, 4:], past_key_values=cache, output_attentions=True)
    for layer in range(LAYERS):
        own, expected = step.decoder_attentions[layer], whole.decoder_attentions[layer][:, :, -1:]
        torch.testing.assert_close(own[..., :5], expected, rtol=1e-4, atol=1e-5)
        assert bool((own[..., 5:] == 0).all())  # slots not written yet
        torch.testing.assert_close(
            step.cross_attentions[layer], whole.cross_attentions[layer][:, :, -1:], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("kind", ["none", "dynamic", "static"])
@torch.no_grad()
def test_hidden_states_are_the_embeddings_the_layers_and_the_normed_end(model: Any, ids: Any, kind: str) -> None:
    ends: dict[str, torch.Tensor] = {}
    for side in ("encoder", "decoder"):
        for index, layer in enumerate(getattr(model, side).layers):
            layer.register_forward_hook(lambda _, __, out, at=f"{side}.{index}": ends.update({at: out[0]}))
    source, target, cache = ids(2, SOURCE), ids(2, 5, seed=4), _cache(model, kind)
    for part in (target[:, :4], target[:, 4:]):
        shown = model(source, decoder_input_ids=part, past_key_values=cache, output_hidden_states=True)
        sides = {"encoder": (source, shown.encoder_hidden_states), "decoder": (part, shown.decoder_hidden_states)}
        for side, (tokens, states) in sides.items():
            stack = getattr(model, side)
            layers = [ends[f"{side}.{index}"] for index in range(LAYERS)]
            expected = [model.shared(tokens), *layers[:-1], stack.norm(layers[-1])]
            assert isinstance(states, tuple) and len(states) == LAYERS + 1
            for got, wanted in zip(states, expected, strict=True):
                torch.testing.assert_close(got, wanted, rtol=0, atol=0)
        assert torch.equal(shown.encoder_hidden_states[-1], shown.encoder_last_hidden_state)
        assert torch.equal(model.lm_head(shown.decoder_hidden_states[-1]), shown.logits)


@torch.no_grad()
def test_nothing_is_shown_unasked(model: Any, ids: Any) -> None:
    shown = model(ids(2, SOURCE), decoder_input_ids=ids(2, 3))
    assert set(shown) == {"logits", CACHE, "encoder_last_hidden_state"}


@pytest.mark.parametrize("cache", [None, "static"])
def test_generate_shows_weights_and_states_of_every_step(model: Any, ids: Any, cache: str | None) -> None:
    options = {"max_new_tokens": 3, "do_sample": False, "cache_implementation": cache}
    shown = model.generate(
        ids(2, SOURCE), output_attentions=True, output_hidden_states=True, return_dict_in_generate=True, **options
    )
    assert len(shown.encoder_attentions) == LAYERS and len(shown.encoder_hidden_states) == LAYERS + 1
    assert len(shown.decoder_attentions) == len(shown.cross_attentions) == len(shown.decoder_hidden_states) == 3
    for own, cross, states in zip(
        shown.decoder_attentions, shown.cross_attentions, shown.decoder_hidden_states, strict=True
    ):
        assert tuple(cross[0].shape) == (2, HEADS, 1, SOURCE) and len(own) == LAYERS and len(states) == LAYERS + 1
        torch.testing.assert_close(own[0].sum(-1) + cross[0].sum(-1), torch.ones(2, HEADS, 1))


@pytest.mark.parametrize("field", ["output_attentions", "output_hidden_states"])
@torch.no_grad()
def test_the_config_may_ask_for_it_and_the_call_overrules_the_config(make_model: Any, ids: Any, field: str) -> None:
    model = make_model()
    setattr(model.config, field, True)
    by_config = model(ids(1, SOURCE), decoder_input_ids=ids(1, 3))
    shown = {f"{side}_{field.removeprefix('output_')}" for side in ("encoder", "decoder")}
    assert shown <= set(by_config)
    by_call = model(ids(1, SOURCE), decoder_input_ids=ids(1, 3), **{field: False})
    assert not shown & set(by_call)
