"""Qwen3 as an encoder–decoder: bidirectional encoder, merged-attention decoder, weights from a Qwen3 checkpoint."""

from transformers import AutoConfig, AutoModelForSeq2SeqLM

from .attention import eager_attention_forward
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .modeling_qwen3_decoder import Qwen3Decoder, Qwen3DecoderLayer, Qwen3DecoderOutput, Qwen3MergedAttention
from .modeling_qwen3_encdec import Qwen3ForSeq2SeqLM
from .modeling_qwen3_encoder import (
    Qwen3Encoder,
    Qwen3EncoderAttention,
    Qwen3EncoderLayer,
    Qwen3EncoderOutput,
    Qwen3MLP,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
    apply_rotary_pos_emb,
    repeat_kv,
    rotate_half,
)
from .tokenization_qwen3_encdec import (
    ByteLevelTokenizer,
    SpanCorruptionCollator,
    TokenizerError,
    add_sentinels,
    check_agreement,
)
from .transformer_encoder import (
    MultiHeadSelfAttention,
    PositionWiseFeedForward,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from .weight_initialization import (
    Qwen3WeightMapper,
    initialize_from_qwen3,
    verify_gradient_flow,
    verify_weight_initialization,
)
from .weights.qwen3_checkpoint import load_qwen3

__all__ = [
    "ByteLevelTokenizer",
    "MultiHeadSelfAttention",
    "PositionWiseFeedForward",
    "Qwen3Decoder",
    "Qwen3DecoderLayer",
    "Qwen3DecoderOutput",
    "Qwen3Encoder",
    "Qwen3EncoderAttention",
    "Qwen3EncoderDecoderConfig",
    "Qwen3EncoderLayer",
    "Qwen3EncoderOutput",
    "Qwen3ForSeq2SeqLM",
    "Qwen3MLP",
    "Qwen3MergedAttention",
    "Qwen3RMSNorm",
    "Qwen3RotaryEmbedding",
    "Qwen3WeightMapper",
    "SpanCorruptionCollator",
    "TokenizerError",
    "TransformerEncoder",
    "TransformerEncoderBlock",
    "add_sentinels",
    "apply_rotary_pos_emb",
    "check_agreement",
    "eager_attention_forward",
    "initialize_from_qwen3",
    "load_qwen3",
    "repeat_kv",
    "rotate_half",
    "verify_gradient_flow",
    "verify_weight_initialization",
]

AutoConfig.register(Qwen3EncoderDecoderConfig.model_type, Qwen3EncoderDecoderConfig, exist_ok=True)
AutoModelForSeq2SeqLM.register(Qwen3EncoderDecoderConfig, Qwen3ForSeq2SeqLM, exist_ok=True)
