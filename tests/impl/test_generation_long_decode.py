"""A decode of 200 cached steps, layers alternating between a window of 16 and none, is the uncached forward."""

from typing import Any

import pytest
import torch
from transformers import Cache, DynamicCache, EncoderDecoderCache, StaticCache

STEPS, WINDOW, ENCODER = 200, 16, 64
NOISE = 1e-5  # largest difference of two logits over the logits' root mean square; at most 4.1e-6 was measured
ALTERNATING = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": WINDOW}


def _cache(model: Any, kind: str) -> EncoderDecoderCache:
    own: dict[str, Cache] = {
        "dynamic": DynamicCache(),
        "evicting": DynamicCache(config=model.config),
        "static": StaticCache(config=model.config, max_cache_len=STEPS + 7),
    }
    return EncoderDecoderCache(own[kind], DynamicCache())


def _padded_sources(ids: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Three sources of 64 tokens: whole, 23 pads on the right, 41 on the left."""
    mask = torch.ones(3, ENCODER, dtype=torch.long)
    mask[1, -23:], mask[2, :41] = 0, 0
    return ids(3, ENCODER, seed=11), mask


def _chunks(kind: str) -> list[int]:
    return {"step by step": [1] * STEPS, "prefill of 50": [50] + [1] * 150, "chunks": [7, 33, 1, 60, 99]}[kind]


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["dynamic", "evicting", "static"])
@pytest.mark.parametrize("sizes", ["step by step", "prefill of 50", "chunks"])
@torch.no_grad()
def test_cached_decode_at_step_200_is_the_uncached_forward(
    make_model: Any, ids: Any, backend: str, kind: str, sizes: str
) -> None:
    model = make_model(attn_implementation=backend, **ALTERNATING)
    source, mask = _padded_sources(ids)
    target = ids(3, STEPS, seed=12)
    expected = model(source, mask, target, use_cache=False).logits
    encoded, cache, parts, done = model.encoder(source, mask), _cache(model, kind), [], 0
    for size in _chunks(sizes):
        part = target[:, done : done + size]
        parts.append(model(None, mask, part, encoder_outputs=encoded, past_key_values=cache).logits)
        done += size
    assert done == STEPS == int(cache.get_seq_length())
    difference = (torch.cat(parts, 1) - expected).abs().amax(dim=(0, 2)) / expected.square().mean().sqrt()
    assert float(difference.max()) < NOISE, f"worst at step {int(difference.argmax())}: {float(difference.max()):.2e}"


@torch.no_grad()
def test_the_window_and_the_padding_are_felt_at_step_200(make_model: Any, ids: Any) -> None:
    source, mask = _padded_sources(ids)
    target = ids(3, STEPS, seed=12)
    expected = make_model(**ALTERNATING)(source, mask, target).logits[:, -1]
    size = expected.square().mean().sqrt()
    wider = make_model(**(ALTERNATING | {"sliding_window": WINDOW + 1}))(source, mask, target).logits[:, -1]
    unmasked = make_model(**ALTERNATING)(source, None, target).logits[:, -1]
    assert bool(((wider - expected).abs().amax(-1) > 1e3 * NOISE * size).all())
    assert bool(((unmasked - expected)[1:].abs().amax(-1) > 1e3 * NOISE * size).all())
