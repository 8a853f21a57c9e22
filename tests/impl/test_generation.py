"""Greedy `generate()` is the loop over `forward()`, and builds no mask with transformers' own functions."""

import inspect
from typing import Any

import pytest
import torch
import transformers.generation.utils as generation_utils
from transformers import DynamicCache, EncoderDecoderCache, masking_utils

WINDOWED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 3}


@pytest.fixture(params=[{}, WINDOWED], ids=["full", "windowed"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(**request.param)


@torch.no_grad()
def _greedy(model: Any, source: torch.Tensor, mask: torch.Tensor | None, start: torch.Tensor, count: int) -> Any:
    target = start
    for _ in range(count):
        logits = model(source, mask, target, use_cache=False).logits
        target = torch.cat([target, logits[:, -1:].argmax(-1)], 1)
    return target


def _padded(ids: Any) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(3, 6, dtype=torch.long)
    mask[1, 3:], mask[2, :2] = 0, 0
    return ids(3, 6), mask


def test_generate_equals_the_loop_over_forward(model: Any, ids: Any) -> None:
    source, mask = _padded(ids)
    expected = _greedy(model, source, mask, torch.full((3, 1), 3), 10)
    actual = model.generate(source, attention_mask=mask, max_new_tokens=10, do_sample=False)
    assert actual.tolist() == expected.tolist()
    assert len(set(actual.flatten().tolist())) >= 8


def test_a_prompt_for_the_decoder_is_continued(model: Any, ids: Any) -> None:
    source, mask = _padded(ids)
    prompt = torch.cat([torch.full((3, 1), 3), ids(3, 3, seed=9)], 1)
    expected = _greedy(model, source, mask, prompt, 6)
    actual = model.generate(source, attention_mask=mask, decoder_input_ids=prompt, max_new_tokens=6, do_sample=False)
    assert actual.tolist() == expected.tolist()


@torch.no_grad()
def test_left_padded_decoder_prompts_generate_as_if_alone(model: Any, ids: Any) -> None:
    source, prompt = ids(2, 5), ids(2, 4, seed=6)
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    start = {"decoder_start_token_id": int(prompt[0, 0]), "max_new_tokens": 5, "do_sample": False}
    batch = model.generate(source, decoder_input_ids=prompt, decoder_attention_mask=mask, **start)
    start["decoder_start_token_id"] = int(prompt[1, 2])
    alone = model.generate(source[1:], decoder_input_ids=prompt[1:, 2:], **start)
    assert batch[1, 4:].tolist() == alone[0, 2:].tolist()


def test_without_a_cache_generate_gives_the_same_tokens(model: Any, ids: Any) -> None:
    source, mask = _padded(ids)
    options = {"attention_mask": mask, "max_new_tokens": 6, "do_sample": False}
    assert model.generate(source, use_cache=False, **options).tolist() == model.generate(source, **options).tolist()


def test_generate_keeps_every_encoder_key_and_computes_them_once(model: Any, ids: Any) -> None:
    calls: list[int] = []
    attention = model.decoder.layers[0].merged_attn
    compute = attention.encoder_keys_values
    attention.encoder_keys_values = lambda *args: (calls.append(1), compute(*args))[1]
    output = model.generate(ids(1, 9), max_new_tokens=7, do_sample=False, return_dict_in_generate=True)
    cache = output.past_key_values
    assert isinstance(cache, EncoderDecoderCache) and isinstance(cache.cross_attention_cache, DynamicCache)
    assert [layer.keys.shape[2] for layer in cache.cross_attention_cache.layers] == [9, 9, 9]
    assert calls == [1]


def test_second_request_with_another_source_is_independent(model: Any, ids: Any) -> None:
    options = {"max_new_tokens": 6, "do_sample": False}
    expected = model.generate(ids(1, 4), **options).tolist()
    model.generate(ids(2, 8, seed=5), **options)
    assert model.generate(ids(1, 4), **options).tolist() == expected


def test_generation_stops_at_eos_and_pads(make_model: Any, ids: Any) -> None:
    model = make_model()
    free = model.generate(ids(1, 4), max_new_tokens=6, do_sample=False)[0].tolist()
    stopped = model.generate(ids(1, 4), max_new_tokens=6, do_sample=False, eos_token_id=free[3], pad_token_id=0)
    assert stopped[0].tolist() == free[: free.index(free[3], 1) + 1]


def test_with_transformers_mask_functions_raising_forward_and_generate_still_work(
    model: Any, ids: Any, monkeypatch: Any
) -> None:
    source, mask = _padded(ids)
    expected = model.generate(source, attention_mask=mask, max_new_tokens=4, do_sample=False)

    def poisoned(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a mask builder of transformers was called")

    functions = [name for name, value in vars(masking_utils).items() if inspect.isfunction(value)]
    assert "create_causal_mask" in functions and "create_masks_for_generate" in functions
    for name in functions:
        monkeypatch.setattr(masking_utils, name, poisoned)
        if hasattr(generation_utils, name):
            monkeypatch.setattr(generation_utils, name, poisoned)
    for backend in ("eager", "sdpa"):
        model.set_attn_implementation(backend)
        actual = model.generate(source, attention_mask=mask, max_new_tokens=4, do_sample=False)
        assert actual.tolist() == expected.tolist()
    model.generate(source, attention_mask=mask, max_new_tokens=2, do_sample=False, cache_implementation="static")
    model(source, mask, ids(3, 2))


@torch.no_grad()
def test_fact_16_exactly_tied_logits_go_to_the_lower_id_as_in_the_reference(make_model: Any, ids: Any) -> None:
    model = make_model(tie_word_embeddings=False)
    source, start = ids(2, 5), torch.full((2, 1), 3)
    hidden = model.decoder(start, model.encoder(source).last_hidden_state).last_hidden_state[:, -1]
    model.lm_head.weight[5] = model.lm_head.weight[9] = 1e3 * hidden.mean(dim=0)
    logits = model(source, None, start).logits[:, -1]
    assert torch.equal(logits[:, 5], logits[:, 9]) and bool((logits[:, 5] == logits.amax(dim=-1)).all())
    assert logits.flip(-1).argmax(-1).tolist() != (logits.shape[-1] - 1 - logits.argmax(-1)).tolist()  # a real tie
    generated = model.generate(source, decoder_input_ids=start, max_new_tokens=1, do_sample=False)
    assert generated[:, -1].tolist() == [5, 5]
