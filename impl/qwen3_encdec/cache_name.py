"""How transformers calls a cache: `past_key_values` up to 5.23, `cache` from 5.24 on, which `generate` asks for."""

from dataclasses import fields

from transformers.cache_utils import Cache
from transformers.modeling_outputs import Seq2SeqLMOutput

CACHE = "cache" if any(field.name == "cache" for field in fields(Seq2SeqLMOutput)) else "past_key_values"
"""The name of the arguments and of the fields of outputs."""


def one_cache(past_key_values: Cache | None, cache: Cache | None) -> Cache | None:
    """The cache that a forward was given by either name; `ValueError` for two."""
    if past_key_values is not None and cache is not None:
        raise ValueError("past_key_values and cache are two names of the same argument; pass one of them")
    return past_key_values if cache is None else cache
