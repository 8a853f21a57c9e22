"""How our model chooses tokens on a case of generation: along the reference's choices, and by its own `generate()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from transformers import EncoderDecoderCache, LogitsProcessorList

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_encdec.modeling_qwen3_encoder import Qwen3EncoderOutput
from qwen3_golden import Array, pb
from qwen3_reference.cases.generation_settings import generate_options
from qwen3_spec.ops.beams import choosing_steps

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
    made: LogitsProcessorList = mixin._get_logits_processor(
        generation_config=config,
        input_ids_seq_length=prompt,
        device=mask.device,
        model_kwargs={"decoder_attention_mask": mask[:, :prompt]},
    )
    return made


def move_beams(cache: EncoderDecoderCache, beam_idx: torch.Tensor) -> None:
    """Give each row of the cache the past that it goes on from, as beam search does between two steps."""
    cache.reorder_cache(cast(torch.LongTensor, beam_idx))


def running_scores(
    before: torch.Tensor | None, logits: torch.Tensor, ids: torch.Tensor, beam_idx: torch.Tensor
) -> torch.Tensor:
    """The scores `[rows]` of beams that enter a step: what they had, and the log-probability of the token they took."""
    costs = logits.float().log_softmax(dim=-1)[beam_idx, ids]
    return costs if before is None else before[beam_idx] + costs


class Choices:
    """Along the reference's choices: beams move before a step, distributions and scores are handed over."""

    def __init__(self, model: Qwen3ForSeq2SeqLM, case: pb.Case, inputs: Mapping[str, Array], tap: Tap) -> None:
        given = {name: torch.from_numpy(value.copy()) for name, value in inputs.items() if name.startswith("input.")}
        self.ids, self.beam_idx = given.get("input.decoder_input_ids", torch.empty(0)), given.get("input.beam_idx")
        self.choosing = choosing_steps(case.steps, case.generation) if case.HasField("generation") else []
        self.case, self.tap = case, tap
        sampled = case.generation.strategy == "sample"
        self.filters = processors(model, case, given["input.decoder_attention_mask"]) if sampled else None
        self.logits = torch.empty(0)
        self.scores: torch.Tensor | None = None

    def enter(self, step: int, cache: EncoderDecoderCache | None) -> None:
        """Before a step's forward."""
        if self.beam_idx is None or step == 0:
            return
        assert cache is not None
        move_beams(cache, self.beam_idx[step])
        if step > self.choosing[0]:
            ids = self.ids[:, sum(self.case.steps[:step])]
            self.scores = running_scores(self.scores, self.logits, ids, self.beam_idx[step])
            self.tap("beam_scores", step, self.scores)

    def leave(self, step: int, logits: torch.Tensor) -> None:
        """Behind it, with its logits `[batch, query, vocab]`."""
        if step not in self.choosing:
            return
        self.logits = logits[:, -1].float()
        if self.filters is not None:
            past: Any = self.ids[:, : sum(self.case.steps[: step + 1])]
            scores: Any = self.logits.clone()
            self.tap("next_token_probs", step, self.filters(past, scores).softmax(dim=-1))


def search(
    model: Qwen3ForSeq2SeqLM, case: pb.Case, inputs: Mapping[str, Array], request: Mapping[str, Any], tap: Tap
) -> None:
    """What our `generate()` returns, in rows padded to `max_new_tokens`; a sample is nothing that repeats itself."""
    generation = case.generation
    if generation.strategy == "sample":
        return
    sources = slice(None, None, generation.num_beams)
    prompt = generation.prompt_length
    ids, mask = (
        torch.from_numpy(inputs[f"input.decoder_{name}"][sources, :prompt].copy())
        for name in ("input_ids", "attention_mask")
    )
    encoded = Qwen3EncoderOutput(last_hidden_state=request["encoder_outputs"].last_hidden_state[sources])
    names = [name for name in ("attention_mask", "position_ids") if request.get(name) is not None]
    encoder = {name: request[name][sources] for name in names}
    mixin: Any = model  # typed as some other class in HF's mixin
    output = mixin.generate(
        **encoder,
        encoder_outputs=encoded,
        **settings(case),
        decoder_input_ids=ids,
        decoder_attention_mask=mask,
        decoder_start_token_id=ids[:, 0].tolist(),  # any other first token would be put before the prompt
        return_dict_in_generate=True,
        output_scores=True,
    )
    new = output.sequences[:, prompt:]
    rows = new.new_full((len(new), case.max_new_tokens), generation.pad_token_id)
    rows[:, : new.shape[1]] = new
    tap("generated_ids", 0, rows)
    if generation.strategy == "beam":
        tap("sequences_scores", 0, output.sequences_scores)


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
