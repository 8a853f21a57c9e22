"""The public names and signatures of the implementation, as other people's code uses them."""

import importlib
import inspect
from typing import Any

import pytest
import torch

import qwen3_encdec
from qwen3_encdec.cache_name import CACHE

NAMES = {
    "configuration_qwen3_encdec": ["Qwen3EncoderDecoderConfig"],
    "modeling_qwen3_encoder": ["Qwen3RMSNorm", "Qwen3RotaryEmbedding", "rotate_half", "apply_rotary_pos_emb",
        "repeat_kv", "Qwen3EncoderAttention", "Qwen3MLP", "Qwen3EncoderLayer", "Qwen3Encoder", "Qwen3EncoderOutput"],
    "modeling_qwen3_decoder": ["Qwen3MergedAttention", "Qwen3DecoderLayer", "Qwen3Decoder", "Qwen3DecoderOutput"],
    "modeling_qwen3_encdec": ["Qwen3ForSeq2SeqLM"],
    "weights.qwen3_checkpoint": ["load_qwen3"],
    "weight_initialization": ["Qwen3WeightMapper", "initialize_from_qwen3", "verify_weight_initialization",
        "verify_gradient_flow"],
    "attention": ["eager_attention_forward"],
    "transformer_encoder": ["MultiHeadSelfAttention", "PositionWiseFeedForward", "TransformerEncoderBlock",
        "TransformerEncoder"],
    "tokenization_qwen3_encdec": ["ByteLevelTokenizer", "SpanCorruptionCollator", "add_sentinels", "check_agreement"],
}  # fmt: skip
ATTENTION = ["hidden_states", "attention_mask", "position_ids", "output_attentions"]
MERGED = [
    "decoder_hidden_states",
    "encoder_hidden_states",
    "decoder_attention_mask",
    "encoder_attention_mask",
    "decoder_position_ids",
    "encoder_position_ids",
    "past_key_value",
    "use_cache",
    "output_attentions",
]
STACK_END = ["output_attentions", "output_hidden_states", "return_dict"]
SIGNATURES = {
    "Qwen3RMSNorm": ["hidden_size", "eps"],
    "Qwen3RotaryEmbedding": ["dim", "max_position_embeddings", "base"],
    "Qwen3RotaryEmbedding.forward": ["x", "position_ids"],
    "apply_rotary_pos_emb": ["q", "k", "cos", "sin"],
    "repeat_kv": ["x", "n_rep"],
    "Qwen3EncoderAttention": ["config", "layer_idx"],
    "Qwen3EncoderAttention.forward": ATTENTION,
    "Qwen3EncoderLayer": ["config", "layer_idx"],
    "Qwen3EncoderLayer.forward": ATTENTION,
    "Qwen3Encoder": ["config"],
    "Qwen3Encoder.forward": ["input_ids", "attention_mask", "position_ids", "inputs_embeds", *STACK_END],
    "Qwen3MLP": ["config"],
    "Qwen3MergedAttention": ["config", "layer_idx"],
    "Qwen3MergedAttention.forward": MERGED,
    "Qwen3MergedAttention.encoder_keys_values": ["encoder_hidden_states", "position_embeddings"],
    "Qwen3DecoderLayer": ["config", "layer_idx"],
    "Qwen3DecoderLayer.forward": MERGED,
    "Qwen3Decoder": ["config"],
    "Qwen3Decoder.forward": ["input_ids", "encoder_hidden_states", "attention_mask", "encoder_attention_mask",
        "position_ids", "encoder_position_ids", "inputs_embeds", "past_key_values", "use_cache", *STACK_END],
}  # fmt: skip

SIGNATURES |= {
    "Qwen3WeightMapper": ["qwen3_model_name_or_path", "num_sentinel_tokens", "device"],
    "Qwen3WeightMapper.map_weights": ["target_model"],
    "initialize_from_qwen3": ["model_name_or_path", "num_sentinel_tokens", "device"],
    "verify_weight_initialization": ["model", "qwen3_model_name", "tolerance"],
    "verify_gradient_flow": ["model", "batch_size", "enc_seq_len", "dec_seq_len"],
}
SIGNATURES |= {
    "MultiHeadSelfAttention": ["d_model", "num_heads", "dropout", "bias"],
    "MultiHeadSelfAttention.forward": ["x", "key_padding_mask", "return_attention"],
    "TransformerEncoderBlock": ["d_model", "num_heads", "d_ff", "dropout", "activation", "pre_norm"],
    "TransformerEncoderBlock.forward": ["x", "key_padding_mask", "return_attention"],
    "TransformerEncoder": [
        *("vocab_size", "d_model", "num_heads", "num_layers", "d_ff", "max_len", "dropout", "activation", "pre_norm"),
    ],
    "TransformerEncoder.forward": ["input_ids", "attention_mask", "return_all_hidden_states"],
}


def _positional(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in NAMES for name in NAMES[module]])
def test_name_is_importable_from_its_module_and_the_package(module: str, name: str) -> None:
    actual = getattr(importlib.import_module(f"qwen3_encdec.{module}"), name)
    assert actual is getattr(qwen3_encdec, name)


@pytest.mark.parametrize("path", SIGNATURES)
def test_arguments_have_the_contracts_names_and_order(path: str) -> None:
    target: Any = qwen3_encdec
    for part in path.split("."):
        target = getattr(target, part)
    assert _positional(target) == SIGNATURES[path]


def test_model_forward_starts_with_the_contracts_five_arguments() -> None:
    actual = _positional(qwen3_encdec.Qwen3ForSeq2SeqLM.forward)[:5]
    assert actual == ["input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "labels"]


def test_rotary_embedding_takes_rope_parameters_as_a_keyword_only() -> None:
    parameter = inspect.signature(qwen3_encdec.Qwen3RotaryEmbedding).parameters["rope_parameters"]
    assert parameter.kind is parameter.KEYWORD_ONLY
    given = qwen3_encdec.Qwen3RotaryEmbedding(4, rope_parameters={"rope_type": "default", "rope_theta": 100.0})
    torch.testing.assert_close(given.inv_freq, torch.tensor([1.0, 0.1]))


def test_outputs_have_the_contracts_fields() -> None:
    encoder = list(qwen3_encdec.Qwen3EncoderOutput.__dataclass_fields__)
    decoder = list(qwen3_encdec.Qwen3DecoderOutput.__dataclass_fields__)
    assert encoder == ["last_hidden_state", "hidden_states", "attentions"]
    assert decoder == ["last_hidden_state", CACHE, "hidden_states", "attentions"]


def test_module_classes_default_to_layer_zero() -> None:
    config = qwen3_encdec.Qwen3EncoderDecoderConfig(
        hidden_size=256, num_attention_heads=8, num_key_value_heads=4, num_hidden_layers=2, intermediate_size=512
    )
    assert qwen3_encdec.Qwen3EncoderAttention(config).layer_idx == 0
    assert qwen3_encdec.Qwen3MergedAttention(config).layer_idx == 0


def test_parameter_names_are_the_contracts(make_model: Any) -> None:
    names = set(make_model(tie_word_embeddings=False).state_dict())
    block = ["input_layernorm", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    heads = ["q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"]
    expected = {"shared.weight", "lm_head.weight"}
    for stack, attention in (("encoder", "self_attn"), ("decoder", "merged_attn")):
        expected |= {f"{stack}.embed_tokens.weight", f"{stack}.norm.weight"}
        for layer in range(3):
            inner = [*block, *(f"{attention}.{name}" for name in heads)]
            expected |= {f"{stack}.layers.{layer}.{name}.weight" for name in inner}
    assert names == expected
