"""How a case chooses tokens, as Hugging Face's `generate()` takes it."""

from __future__ import annotations

from typing import Any

from qwen3_golden import pb


def generate_options(generation: pb.Generation, max_new_tokens: int) -> dict[str, Any]:
    """The settings as Hugging Face's `generate()` names them; none is left to a model's own defaults."""
    options: dict[str, Any] = {
        "do_sample": generation.strategy == "sample",
        "max_new_tokens": max_new_tokens,
        "repetition_penalty": generation.repetition_penalty,
        "num_beams": 1,
        "eos_token_id": list(generation.eos_token_id) or None,
        "pad_token_id": generation.pad_token_id,
    }
    if generation.strategy == "sample":
        options |= {name: getattr(generation, name) for name in ("temperature", "top_k", "top_p")}
        options["min_p"] = generation.min_p or None
    return options
