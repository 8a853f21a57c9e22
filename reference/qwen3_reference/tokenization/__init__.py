"""Hugging Face's tokenizer as the reference: every stage of a text, recorded; `recorded` puts them together."""

from qwen3_reference.versions import refuse_unsupported

refuse_unsupported()
