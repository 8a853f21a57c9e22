"""What users run is what a recording sees: a hook that looks on changes no bit, and products are torch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from qwen3_encdec.caches import new_cache

LAYERS = {
    "qwen3": {},
    "qwen2": {"use_qk_norm": False, "attention_bias": True},
    "window": {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 3},
}


@torch.no_grad()
def steps(model: Any, rows: int) -> tuple[torch.Tensor, Any]:
    """Logits `[rows, 5, vocab]` of a prefill of two tokens and three steps behind it, and the cache."""
    generator = torch.Generator().manual_seed(3)
    memory = torch.randn(rows, 7, 40, generator=generator).to(model.dtype)
    target, cache = torch.randint(3, 90, (rows, 5), generator=generator), new_cache()
    logits = [
        model(encoder_outputs=(memory,), decoder_input_ids=part, past_key_values=cache).logits
        for part in target.split([2, 1, 1, 1], dim=1)
    ]
    return torch.cat(logits, dim=1), cache


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_a_model_with_a_hook_on_every_module_has_the_bits_of_one_without(
    name: str, rows: int, dtype: torch.dtype, make_model: Any
) -> None:
    model = make_model(attn_implementation="sdpa", **LAYERS[name]).to(dtype)
    alone, own = steps(model, rows)
    calls: list[str] = []
    for path, module in model.named_modules():
        module.register_forward_hook(lambda *_given, path=path: calls.append(path))
    watched, seen = steps(model, rows)
    assert calls.count("decoder.layers.1.mlp.up_proj") == 4
    assert torch.equal(alone, watched)
    for a, b in zip(own.self_attention_cache.layers, seen.self_attention_cache.layers, strict=True):
        assert torch.equal(a.keys, b.keys) and torch.equal(a.values, b.values)


def test_every_product_with_a_weight_is_torchs_own_linear_layer(make_model: Any) -> None:
    model = make_model()
    names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head")
    products = [module for path, module in model.named_modules() if path.endswith(names)]
    assert len(products) == 2 * 3 * 7 + 1 and all(type(module) is nn.Linear for module in products)
