"""The same numbers as Hugging Face's modules, bit for bit where the kernels are the same."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import DynamicCache, Qwen3Model
from transformers.models.qwen3 import modeling_qwen3 as hf_qwen3

from qwen3_encdec import load_qwen3, repeat_kv
from qwen3_encdec.cache_name import CACHE

WINDOWED = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}


def _bidirectional(hf: Any) -> Any:
    config = copy.deepcopy(hf.config)
    config.is_causal = False
    encoder = Qwen3Model(config).eval()
    encoder.load_state_dict(hf.model.state_dict())
    return encoder


def _positions(mask: torch.Tensor) -> torch.Tensor:
    return (mask.cumsum(-1) - 1).clamp(min=0)


@pytest.fixture(params=["right", "left", "none"])
def padding(request: pytest.FixtureRequest) -> torch.Tensor:
    mask = torch.ones(2, 7, dtype=torch.long)
    if request.param != "none":
        mask[1, slice(4, None) if request.param == "right" else slice(0, 3)] = 0
    return mask


@pytest.mark.parametrize("overrides", [{}, WINDOWED, {"family": "qwen2"}], ids=["full", "windowed", "qwen2"])
def test_causal_decoder_without_encoder_has_hfs_bits(save_hf: Any, ids: Any, overrides: dict[str, Any]) -> None:
    hf, directory = save_hf(**overrides)
    model = load_qwen3(directory)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = hf(ids(2, 7)).logits
        actual = model.lm_head(model.decoder(ids(2, 7), torch.zeros(2, 0, 40)).last_hidden_state)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.parametrize("overrides", [{}, WINDOWED], ids=["full", "windowed"])
def test_encoder_has_the_bits_of_hf_with_is_causal_false(
    save_hf: Any, ids: Any, padding: torch.Tensor, overrides: dict[str, Any]
) -> None:
    hf, directory = save_hf(**overrides)
    model = load_qwen3(directory)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        theirs = _bidirectional(hf)(ids(2, 7), attention_mask=padding, position_ids=_positions(padding))
        ours = model.encoder(ids(2, 7), attention_mask=padding)
    visible = padding.bool()
    torch.testing.assert_close(ours.last_hidden_state[visible], theirs.last_hidden_state[visible], rtol=0, atol=0)


class _Merged(DynamicCache):
    """HF's cache that returns `[own ; memory]`, which turns its causal model into a merged decoder."""

    def __init__(self, memory: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        super().__init__()
        self.memory = memory

    def update(self, keys: Any, values: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        keys, values = super().update(keys, values, layer_idx, *args, **kwargs)
        theirs = self.memory[layer_idx]
        return torch.cat([keys, theirs[0]], 2), torch.cat([values, theirs[1]], 2)


@pytest.mark.parametrize("rotate", [True, False])
def test_merged_decoder_has_the_bits_of_hf_with_a_merged_cache(
    save_hf: Any, ids: Any, padding: torch.Tensor, rotate: bool
) -> None:
    hf, directory = save_hf()
    model = load_qwen3(directory, rotate_encoder_keys=rotate)
    model.set_attn_implementation("eager")
    source, target = ids(2, 7), ids(2, 4, seed=5)
    with torch.no_grad():
        encoded = _bidirectional(hf)(source, attention_mask=padding, position_ids=_positions(padding))[0]
        memory = []
        for layer in hf.model.layers:
            keys = layer.self_attn.k_norm(layer.self_attn.k_proj(encoded).view(2, 7, 2, 10)).transpose(1, 2)
            if rotate:
                cos, sin = hf.model.rotary_emb(encoded, _positions(padding))
                keys = hf_qwen3.apply_rotary_pos_emb(keys, keys, cos, sin)[1]
            memory.append((keys, layer.self_attn.v_proj(encoded).view(2, 7, 2, 10).transpose(1, 2)))
        visible = torch.cat(
            [torch.ones(4, 4).tril().bool().expand(2, 4, 4), padding.bool()[:, None].expand(2, 4, 7)], 2
        )
        mask = torch.zeros(2, 1, 4, 11).masked_fill(~visible[:, None], torch.finfo(torch.float32).min)
        expected = hf(
            target,
            attention_mask={"full_attention": mask},
            position_ids=torch.arange(4).expand(2, 4),
            **{CACHE: _Merged(memory)},
        ).logits
        actual = model(source, padding, target).logits
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_head_repetition_has_hfs_bits() -> None:
    k = torch.randn(2, 3, 5, 10)
    torch.testing.assert_close(repeat_kv(k, 2), hf_qwen3.repeat_kv(k, 2), rtol=0, atol=0)


def test_bfloat16_decoder_has_hfs_bits(save_hf: Callable[..., Any], ids: Any) -> None:
    hf, directory = save_hf()
    hf = hf.bfloat16()
    hf.model.rotary_emb = hf_qwen3.Qwen3RotaryEmbedding(hf.config)  # .bfloat16() rounded HF's frequencies
    model = load_qwen3(directory, dtype=torch.bfloat16)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = hf(ids(2, 7)).logits
        actual = model.lm_head(model.decoder(ids(2, 7), torch.zeros(2, 0, 40, dtype=torch.bfloat16)).last_hidden_state)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
