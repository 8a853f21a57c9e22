"""How our model chooses tokens on a case of generation: along the reference's choices, and by its own `generate()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from transformers import LogitsProcessorList

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_golden import Array, pb
from qwen3_reference.cases.generation import generate_options
from qwen3_spec.ops.argmax import choosing_steps

Tap = Callable[[str, int, torch.Tensor], None]


def settings(case: pb.Case) -> dict[str, Any]:
    """The case's settings as `generate()` takes them, chunks of the prompt included."""
    chunk = case.steps[0] if case.steps[0] < case.generation.prompt_length else None
    return generate_options(case.generation, case.max_new_tokens) | {"prefill_chunk_size": chunk}


def processors(model: Qwen3ForSeq2SeqLM, case: pb.Case, mask: torch.Tensor) -> LogitsProcessorList:
    """The processors that our `generate()` builds; `mask[batch, total]` is True where a decoder id is no padding."""
    mixin: Any = model
    config, _ = mixin._prepare_generation_config(None, **settings(case))
    config.decoder_start_token_id = case.generation.pad_token_id  # asked for, not used
    mixin._prepare_special_tokens(config, True, device=mask.device)
    prompt = case.generation.prompt_length
    filters: LogitsProcessorList = mixin._get_logits_processor(
        generation_config=config,
        input_ids_seq_length=prompt,
        device=mask.device,
        model_kwargs={"decoder_attention_mask": mask[:, :prompt]},
    )
    return filters


def next_token_probs(
    model: Qwen3ForSeq2SeqLM, case: pb.Case, inputs: Mapping[str, Array]
) -> Callable[[int, torch.Tensor], torch.Tensor | None]:
    """`probs(step, logits)`, for logits `[batch, query, vocab]`: the distribution that a sample draws from.

    None in steps that choose nothing, and of cases that draw nothing.
    """
    if case.generation.strategy != "sample":
        return lambda _step, _logits: None
    ids, mask = (torch.from_numpy(inputs[f"input.decoder_{name}"].copy()) for name in ("input_ids", "attention_mask"))
    choosing, filters = choosing_steps(case.steps, case.generation), processors(model, case, mask)

    def probs(step: int, logits: torch.Tensor) -> torch.Tensor | None:
        if step not in choosing:
            return None
        past: Any = ids[:, : sum(case.steps[: step + 1])]
        scores: Any = logits[:, -1].float().clone()
        return filters(past, scores).softmax(dim=-1)

    return probs


def search(
    model: Qwen3ForSeq2SeqLM, case: pb.Case, inputs: Mapping[str, Array], request: Mapping[str, Any], tap: Tap
) -> None:
    """What our `generate()` returns, in rows padded to `max_new_tokens`; a sample is nothing that repeats itself."""
    generation = case.generation
    if generation.strategy == "sample":
        return
    prompt = generation.prompt_length
    ids, mask = (
        torch.from_numpy(inputs[f"input.decoder_{name}"][:, :prompt].copy()) for name in ("input_ids", "attention_mask")
    )
    mixin: Any = model  # typed as some other class in HF's mixin
    sequences = mixin.generate(
        **request,
        **settings(case),
        decoder_input_ids=ids,
        decoder_attention_mask=mask,
        decoder_start_token_id=ids[:, 0].tolist(),  # any other first token would be put before the prompt
    )
    new = sequences[:, prompt:]
    rows = new.new_full((len(new), case.max_new_tokens), generation.pad_token_id)
    rows[:, : new.shape[1]] = new
    tap("generated_ids", 0, rows)


def greedy(
    model: Qwen3ForSeq2SeqLM, case: pb.Case, inputs: Mapping[str, Array], request: Mapping[str, Any]
) -> torch.Tensor:
    """Greedy continuation `[batch, new]` of the first step's ids, for a case that says no more than how many."""
    ids, mask = (
        torch.from_numpy(inputs[f"input.decoder_{name}"][:, : case.steps[0]].copy())
        for name in ("input_ids", "attention_mask")
    )
    mixin: Any = model  # typed as some other class in HF's mixin
    generated: torch.Tensor = mixin.generate(
        **request,
        decoder_input_ids=ids,
        decoder_attention_mask=mask,
        max_new_tokens=case.max_new_tokens,
        decoder_start_token_id=ids[:, 0].tolist(),  # any other first token would be put before the prompt
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return generated[:, ids.shape[1] :]
