"""How a case chooses tokens, as `generate()` and as the specification take it; and which of its steps choose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from qwen3_golden import pb
from qwen3_spec.beams import Search
from qwen3_spec.sampling import Sampling


def generate_options(generation: pb.Generation, max_new_tokens: int) -> dict[str, Any]:
    """The settings as Hugging Face's `generate()` names them; none is left to a model's own defaults."""
    options: dict[str, Any] = {
        "do_sample": generation.strategy == "sample",
        "max_new_tokens": max_new_tokens,
        "repetition_penalty": generation.repetition_penalty,
        "num_beams": generation.num_beams,
        "eos_token_id": list(generation.eos_token_id) or None,
        "pad_token_id": generation.pad_token_id,
    }
    if generation.strategy == "sample":
        options |= {name: getattr(generation, name) for name in ("temperature", "top_k", "top_p")}
        options["min_p"] = generation.min_p or None
    if generation.strategy == "beam":
        names = ("length_penalty", "early_stopping", "num_return_sequences")
        options |= {name: getattr(generation, name) for name in names}
    return options


def sampling_of(generation: pb.Generation) -> Sampling:
    """The filters of a generation."""
    return Sampling(
        repetition_penalty=generation.repetition_penalty,
        temperature=generation.temperature,
        top_k=generation.top_k,
        top_p=generation.top_p,
        min_p=generation.min_p,
    )


def search_of(generation: pb.Generation, max_new_tokens: int) -> Search:
    """The search of a generation that is greedy or has beams."""
    return Search(
        new=max_new_tokens,
        eos=tuple(generation.eos_token_id),
        pad=generation.pad_token_id,
        beams=generation.num_beams,
        length_penalty=generation.length_penalty,
        early_stopping=generation.early_stopping,
        returned=generation.num_return_sequences,
    )


def choosing_steps(steps: Sequence[int], generation: pb.Generation) -> list[int]:
    """The steps by whose last logits a token was chosen: from the one that ends the prompt on."""
    return [step for step, stop in enumerate(accumulate(steps)) if stop >= generation.prompt_length]
