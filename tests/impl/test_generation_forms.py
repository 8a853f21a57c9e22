"""Generation from encoder outputs, from a cache and from a prefill in chunks is generation from the source."""

from typing import Any

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from qwen3_encdec.cache_name import CACHE

WINDOWED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 3}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest, make_model: Any) -> Any:
    return make_model(attn_implementation=request.param, **WINDOWED)


@pytest.fixture
def source(ids: Any) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(3, 7, dtype=torch.long)
    mask[1, 4:], mask[2, :2] = 0, 0
    return ids(3, 7, seed=41), mask


def _prompt(ids: Any) -> torch.Tensor:
    return torch.cat([torch.full((3, 1), 3), ids(3, 8, seed=42)], 1)


def _generate(model: Any, source: torch.Tensor | None, mask: torch.Tensor, **options: Any) -> Any:
    settings = {"attention_mask": mask, "do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    return model.generate(source, **(settings | options))


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_encoder_outputs_from_outside_replace_the_source(model: Any, source: Any, cache: str) -> None:
    ids, mask = source
    with torch.no_grad():
        encoded = model.encoder(ids, mask)
    options = {"max_new_tokens": 8, "cache_implementation": cache}
    expected = _generate(model, ids, mask, **options)
    actual = _generate(model, None, mask, encoder_outputs=encoded, **options)
    assert actual.sequences.tolist() == expected.sequences.tolist()
    torch.testing.assert_close(torch.stack(actual.logits), torch.stack(expected.logits), rtol=0, atol=0)


def test_source_mask_still_counts_when_encoder_outputs_come_from_outside(model: Any, source: Any) -> None:
    ids, mask = source
    with torch.no_grad():
        encoded = model.encoder(ids, mask)
    masked, unmasked = (
        _generate(model, None, m, encoder_outputs=encoded, max_new_tokens=2) for m in (mask, torch.ones_like(mask))
    )
    changed = (masked.logits[0] - unmasked.logits[0]).abs().amax(-1) > 1e-2
    assert changed.tolist() == [False, True, True]


@pytest.mark.parametrize("static", [False, True])
def test_a_second_call_with_the_first_ones_cache_goes_on(model: Any, source: Any, static: bool) -> None:
    ids, mask = source
    with torch.no_grad():
        encoded = model.encoder(ids, mask)
    whole = _generate(model, ids, mask, max_new_tokens=12)
    own = StaticCache(config=model.config, max_cache_len=20) if static else DynamicCache()
    cache = EncoderDecoderCache(own, DynamicCache())
    first = _generate(model, None, mask, encoder_outputs=encoded, **{CACHE: cache}, max_new_tokens=5)
    assert int(cache.get_seq_length()) == 5
    second = _generate(
        model,
        None,
        mask,
        encoder_outputs=encoded,
        **{CACHE: cache},
        decoder_input_ids=first.sequences,
        max_new_tokens=7,
    )
    assert second.sequences.tolist() == whole.sequences.tolist()
    torch.testing.assert_close(torch.stack(second.logits), torch.stack(whole.logits[5:]), **CLOSE)


@pytest.mark.parametrize("chunk", [1, 2, 4, 9])
def test_prefill_in_chunks_generates_the_same(model: Any, source: Any, ids: Any, chunk: int) -> None:
    prompt = _prompt(ids)
    whole = _generate(model, *source, decoder_input_ids=prompt, max_new_tokens=6)
    fed: list[int] = []
    model.decoder.embed_tokens.register_forward_pre_hook(lambda _, inputs: fed.append(inputs[0].shape[1]))
    parts = _generate(model, *source, decoder_input_ids=prompt, max_new_tokens=6, prefill_chunk_size=chunk)
    assert max(fed) == chunk and sum(fed) == 9 + 5
    assert parts.sequences.tolist() == whole.sequences.tolist()
    torch.testing.assert_close(torch.stack(parts.logits), torch.stack(whole.logits), **CLOSE)


@pytest.mark.parametrize("chunks", [[1] * 9, [4, 5], [2, 1, 6]], ids=str)
@torch.no_grad()
def test_prefill_in_chunks_leaves_the_same_cache(model: Any, source: Any, ids: Any, chunks: list[int]) -> None:
    (tokens, mask), prompt = source, _prompt(ids)
    encoded = model.encoder(tokens, mask)
    whole = model(None, mask, prompt, encoder_outputs=encoded, use_cache=True).past_key_values
    parts = EncoderDecoderCache(DynamicCache(), DynamicCache())
    for part in prompt.split(chunks, dim=1):
        model(None, mask, part, encoder_outputs=encoded, past_key_values=parts)
    for half in ("self_attention_cache", "cross_attention_cache"):
        for one, other in zip(getattr(whole, half).layers, getattr(parts, half).layers, strict=True):
            torch.testing.assert_close(other.keys, one.keys, **CLOSE)
            torch.testing.assert_close(other.values, one.values, **CLOSE)
