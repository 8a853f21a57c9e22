"""Merged attention with unrotated encoder keys is T5Gemma 2's: the same weights, the same states, the same bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.models.t5gemma2.configuration_t5gemma2 import T5Gemma2TextConfig
from transformers.models.t5gemma2.modeling_t5gemma2 import T5Gemma2MergedAttention

from qwen3_encdec.masks import additive_mask
from qwen3_golden import GOLDEN_ROOT, Recording, read
from qwen3_parity.checkpoints.weights import checkpoint_directories
from qwen3_parity.recording.ours.network import EncoderDecoder, factory


@pytest.fixture(scope="module")
def golden() -> Recording:
    return read(GOLDEN_ROOT / "cases" / "encdec" / "unrotated.pb")


@pytest.fixture(scope="module")
def ours(golden: Recording) -> EncoderDecoder:
    built = factory()(golden.case, checkpoint_directories(golden.case, GOLDEN_ROOT / "checkpoints"))
    assert isinstance(built, EncoderDecoder)
    return built


def theirs(attention: Any, golden: Recording) -> T5Gemma2MergedAttention:
    """HF's module with our weights: its norms are stored minus one, its scale is that of `query_pre_attn_scalar`."""
    config = golden.case.config
    text = T5Gemma2TextConfig(
        hidden_size=config.num_attention_heads,  # replaced below: HF asks for a multiple of the heads, and needs none
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        query_pre_attn_scalar=config.head_dim,
        num_hidden_layers=1,
        layer_types=["full_attention"],
        rms_norm_eps=config.rms_norm_eps,
        attention_bias=False,
        attn_logit_softcapping=None,
    )
    text.hidden_size = config.hidden_size
    text._attn_implementation = "eager"
    module = T5Gemma2MergedAttention(text, layer_idx=0).eval()
    weights = {name: value.clone() for name, value in attention.state_dict().items()}
    for norm in ("q_norm.weight", "k_norm.weight"):
        weights[norm] -= 1
    module.load_state_dict(weights, strict=True)
    return module


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("rotated", [False, True])
def test_unrotated_merged_attention_is_t5gemma2s_bit_for_bit(
    layer: int, rotated: bool, golden: Recording, ours: EncoderDecoder
) -> None:
    def tap(name: str) -> torch.Tensor:
        return torch.from_numpy(golden[name, 0].array.copy())

    attention: Any = ours.model.decoder.layers[layer].merged_attn
    prefix = f"decoder.layers.{layer}"
    states, memory = tap(f"{prefix}.input_layernorm"), tap("encoder.norm")
    mask = additive_mask(tap(f"{prefix}.merged_attn.mask")[:, None], torch.float32)
    tables = tap("decoder.cos"), tap("decoder.sin")
    output, self_probs, cross = theirs(attention, golden)(states, tables, mask, memory)
    encoder_tables = (tap("encoder.cos"), tap("encoder.sin")) if rotated else None
    ours.model.decoder.config.rotate_encoder_keys = rotated
    try:
        mine, weights, _ = attention(
            states,
            memory,
            output_attentions=True,
            mask=mask,
            position_embeddings=tables,
            encoder_position_embeddings=encoder_tables,
        )
    finally:
        ours.model.decoder.config.rotate_encoder_keys = False
    same = torch.equal(mine, output) and torch.equal(weights, torch.cat((self_probs, cross), dim=-1))
    assert same is not rotated  # rotating the encoder's keys is the difference, and it is seen
