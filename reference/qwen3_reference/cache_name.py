"""How transformers calls a cache: `past_key_values` up to 5.23, `cache` from 5.24 on."""

from dataclasses import fields

from transformers.modeling_outputs import CausalLMOutputWithPast

CACHE = "cache" if any(field.name == "cache" for field in fields(CausalLMOutputWithPast)) else "past_key_values"
"""The name of the arguments of models and of builders of masks, and of the fields of outputs."""
