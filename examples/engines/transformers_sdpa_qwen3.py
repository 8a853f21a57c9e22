"""Hugging Face's own Qwen3ForCausalLM as a candidate, with torch's fused attention."""

from __future__ import annotations

from functools import partial

from transformers_eager_qwen3 import HAS, PACKAGE, build

__all__ = ["HAS", "PACKAGE", "VARIANT", "factory"]
VARIANT = "sdpa"
factory = partial(build, VARIANT)
