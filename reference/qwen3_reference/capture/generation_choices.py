"""What tokens were chosen by, recorded beside the logits of the run that is forced along the choices."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from transformers import LogitsProcessorList

from qwen3_golden import Array, ParityError, pb
from qwen3_reference.capture.generation import FreeRun
from qwen3_reference.capture.run import Inputs, StepSink, as_tensor
from qwen3_reference.cases.generation_settings import generate_options
from qwen3_spec.ops.argmax import choosing_steps

_NOISE = 1e-3
"""How far apart logits of the free run and of the forced one may be: the same model on the same ids."""


def processors(decoder: Any, inputs: Inputs, generation: pb.Generation, max_new_tokens: int) -> LogitsProcessorList:
    """HF's processors for these settings, in the order in which `generate()` applies them."""
    options = generate_options(generation, max_new_tokens)
    config, _ = decoder._prepare_generation_config(None, **options)
    decoder._prepare_special_tokens(config, True, device="cpu")
    prompt = slice(0, generation.prompt_length)
    chain: LogitsProcessorList = decoder._get_logits_processor(
        generation_config=config,
        input_ids_seq_length=generation.prompt_length,
        device="cpu",
        model_kwargs={"attention_mask": as_tensor(inputs, "decoder_attention_mask")[:, prompt].long()},
    )
    return chain


def chosen(decoder: Any, free: FreeRun, message: pb.Case, sink: StepSink) -> StepSink:
    """A sink that adds what a token was chosen by: the distribution after its logits.

    Raises `ParityError` (harness bug) when the logits are not those that `generate()` saw.
    """
    generation, steps = message.generation, list(message.steps)
    choosing = choosing_steps(steps, generation)
    ids, mask = (as_tensor(free.inputs, f"decoder_{name}") for name in ("input_ids", "attention_mask"))
    of_sample = generation.strategy == "sample"
    filters = processors(decoder, free.inputs, generation, message.max_new_tokens) if of_sample else None
    ends = np.cumsum(steps)

    def forward(step: int, name: str, value: torch.Tensor) -> None:
        sink(step, name, value)
        if name != "logits" or step not in choosing:
            return
        last, stop = value[:, -1].float(), int(ends[step])
        _same(message.name, step, last.numpy(), free.logits[step - choosing[0]], mask[:, stop - 1].numpy())
        if filters is not None:
            past, scores = cast(torch.LongTensor, ids[:, :stop]), cast(torch.FloatTensor, last.clone())
            sink(step, "next_token_probs", filters(past, scores).softmax(dim=-1))

    return forward


def _same(case: str, step: int, forced: Array, free: Array, real: Array) -> None:
    far = float(np.abs(forced - free)[real].max(initial=0))
    if far > _NOISE:
        raise ParityError(
            f"{case}: logits (step {step})",
            "the forced run is not the run that chose the tokens",
            expected=f"logits within {_NOISE:g} of those inside generate()",
            got=f"{far:.3g}",
            next_step="look at the masks and positions that qwen3_reference.capture.generation prepares",
            fault="harness bug",
        )
