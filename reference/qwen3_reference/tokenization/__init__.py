"""Hugging Face's tokenizer as the reference: every stage of a text, recorded; `recorded` puts them together."""

from qwen3_reference import versions

__all__ = ["versions"]
