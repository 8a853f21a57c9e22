"""Text for the encoder–decoder: the tokenizer with sentinels, span corruption, and the independent tokenizer."""

from .sentinels import add_sentinels, check_agreement, check_sentinels, sentinel_name
from .span_corruption import T5, UL2, Denoiser, corrupt, noise_spans, restore
from .span_corruption_collator import SpanCorruptionCollator
from .tokenizer import ByteLevelTokenizer, TokenizerError

__all__ = [
    "T5",
    "UL2",
    "ByteLevelTokenizer",
    "Denoiser",
    "SpanCorruptionCollator",
    "TokenizerError",
    "add_sentinels",
    "check_agreement",
    "check_sentinels",
    "corrupt",
    "noise_spans",
    "restore",
    "sentinel_name",
]
