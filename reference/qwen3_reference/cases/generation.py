"""The cases of generation, as data: what is given, and how tokens are chosen by Hugging Face's `generate()`."""

from __future__ import annotations

from functools import partial
from typing import Any

from qwen3_golden import pb
from qwen3_reference.cases.definitions import CaseDefinition
from qwen3_reference.checkpoints.greedy import plain_generation
from qwen3_reference.checkpoints.sizes import PAD_ID

_SOURCES = ("input.*", "*position_ids", "*cos", "*sin")
_ENDS = ("decoder.layers.0.output", "*.norm", "logits")
_CACHES = ("*.1.merged_attn.*cache_*", "*.1.merged_attn.*k_rope", "*.1.merged_attn.*v_proj")
_TAPS = (*_SOURCES, *_CACHES, *_ENDS)
"""Sources, one layer's caches with what enters them, what cuts the network in two, results: many steps, few taps."""


_settings = partial(plain_generation, pad_token_id=PAD_ID)

GENERATION_CASES = (
    CaseDefinition(
        "generation/greedy",
        "A causal Qwen3 from prompts padded on the left, in chunks; rows end at different steps, by either of two ids.",
        79,
        decoder="generation",
        decoder_rows=("111111", "001111", "011111"),
        steps=(3, 3),
        max_new_tokens=8,
        generation=_settings("greedy", eos_token_id=[0, 28]),
        taps=_TAPS,
        exposes=("SMP-06", "SMP-10", "KVC-05", "POS-04"),
    ),
    CaseDefinition(
        "generation/equal_logits",
        "Two tokens whose logits are equal bit for bit are the best ones: the lower id is chosen.",
        555,
        decoder="generation",
        decoder_rows=("11111", "00111"),
        steps=(5,),
        max_new_tokens=8,
        generation=_settings("greedy"),
        taps=(*_SOURCES, *_ENDS),
        exposes=("SMP-09",),
    ),
    CaseDefinition(
        "generation/small_margins",
        "Greedy along logits near to each other: the two best are a tenth to three nats apart.",
        331,
        decoder="head-dim-64",
        decoder_rows=("1111", "0011"),
        steps=(4,),
        max_new_tokens=12,
        generation=_settings("greedy"),
        taps=(*_SOURCES, "*.norm", "logits"),
        exposes=("HED-02", "HED-12", "KVC-05"),
    ),
    CaseDefinition(
        "generation/merged",
        "Greedy with an encoder and windows: sources padded on either side, rows that end at different steps.",
        62,
        encoder="generation-encoder",
        decoder="generation",
        encoder_rows=("11111", "00111", "11100"),
        decoder_rows=("11", "11", "01"),
        steps=(2,),
        max_new_tokens=7,
        generation=_settings("greedy", eos_token_id=[23, 36]),
        taps=_TAPS,
        exposes=("SMP-06", "SMP-10", "MRG-12", "POS-08"),
    ),
    CaseDefinition(
        "generation/penalty_padded",
        "A repetition penalty alone, over rows of which one is padded: what stands in padding is not penalised.",
        71,
        decoder="generation",
        decoder_rows=("11111", "00111"),
        steps=(5,),
        max_new_tokens=4,
        generation=_settings("sample", repetition_penalty=1.7),
        taps=(*_SOURCES, *_ENDS[1:]),
        exposes=("SMP-04", "SMP-15"),
    ),
    CaseDefinition(
        "generation/sample",
        "Every filter at once, along tokens that were drawn: penalty, temperature, top-k, top-p, min-p.",
        70,
        decoder="generation",
        decoder_rows=("111111", "001111", "111111"),
        steps=(6,),
        max_new_tokens=7,
        generation=_settings(
            "sample", repetition_penalty=1.4, temperature=2.0, top_k=20, top_p=0.9, min_p=0.05, eos_token_id=[5]
        ),
        taps=("input.*", "*cos", "*sin", *_ENDS[1:]),
        exposes=("SMP-01", "SMP-02", "SMP-04", "SMP-05", "SMP-08"),
    ),
)


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
