"""Hugging Face's own `generate()` on a case's prompt, and from what it chose the case: tokens to force, steps, results.

What the tokens were chosen by is recorded beside the logits of the run that is forced along the choices.

A causal case is HF's Qwen3 as it is. With an encoder it is the same model on `MergedCache`, whose inputs at each step
(the mask of every layer type, explicit positions) are ours to prepare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessorList

from qwen3_golden import Array, ParityError, pb
from qwen3_reference.caches import CACHE
from qwen3_reference.capture.merged_cache import Memory, MergedCache
from qwen3_reference.capture.models import Reference
from qwen3_reference.capture.run import Inputs, StepSink, as_tensor, memory_of, merged_masks, run_encoder
from qwen3_reference.cases.generation import generate_options
from qwen3_spec.ops.argmax import choosing_steps

_NOISE = 1e-3
"""How far apart logits of the free run and of the forced one may be: the same model on the same ids."""


@dataclass(frozen=True)
class FreeRun:
    """What `generate()` gave. `inputs` and `steps` are the case's: the prompt and what was chosen behind it.

    `generated[batch, new]` is padded to `max_new_tokens`, None for a sample. `margin` is the smallest distance of two
    candidates of which one was chosen. `logits[n][rows, vocab]` are those of choice n.
    """

    inputs: Mapping[str, Array]
    steps: tuple[int, ...]
    generated: Array | None
    margin: float
    logits: Sequence[Array]


def merged_memory(reference: Reference, inputs: Inputs) -> Memory:
    """The encoder's output on a case's inputs, run once, with its RoPE tables."""

    def unwanted(_name: str) -> bool:
        return False

    hidden = run_encoder(reference.encoder, inputs, lambda *_: None, unwanted)
    with torch.no_grad():
        return memory_of(reference, hidden, as_tensor(inputs, "encoder_position_ids"))


@contextmanager
def merged(decoder: Any, encoder_mask: torch.Tensor) -> Iterator[None]:
    """Inside, `decoder.generate` gives each forward the masks and positions that a `MergedCache` needs."""

    def prepare(
        input_ids: torch.Tensor,
        next_sequence_length: int | None = None,
        past_key_values: Any = None,
        attention_mask: torch.Tensor | None = None,
        cache: Any = None,
        **_: Any,
    ) -> dict[str, Any]:
        assert attention_mask is not None
        cache = past_key_values if cache is None else cache  # `generate` looks for its own name of the two
        ids = input_ids if next_sequence_length is None else input_ids[:, -next_sequence_length:]
        stop = cache.get_seq_length() + ids.shape[1]
        real = attention_mask[:, :stop].bool()
        positions = (real.long().cumsum(dim=-1) - 1).clamp(min=0)[:, stop - ids.shape[1] :]
        masks = merged_masks(decoder, cache, ids, real, encoder_mask)
        arguments = {"input_ids": ids.contiguous(), "attention_mask": masks, "position_ids": positions}
        return arguments | {CACHE: cache, "use_cache": True}

    decoder.prepare_inputs_for_generation = prepare
    try:
        yield
    finally:
        del decoder.prepare_inputs_for_generation


def hf_generate(reference: Reference, inputs: Inputs, **options: Any) -> Any:
    """`generate()` on the decoder ids of `inputs`."""
    decoder = reference.decoder
    prompt, mask = as_tensor(inputs, "decoder_input_ids"), as_tensor(inputs, "decoder_attention_mask").long()
    options |= {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
    if reference.encoder is None:
        with torch.no_grad():
            return decoder.generate(prompt, attention_mask=mask, **options)
    memory = merged_memory(reference, inputs)
    cache = MergedCache([layer.self_attn for layer in decoder.model.layers], memory)
    with torch.no_grad(), merged(decoder, as_tensor(inputs, "encoder_attention_mask")):
        return decoder.generate(prompt, attention_mask=mask, **{CACHE: cache}, **options)


def free_run(
    reference: Reference,
    inputs: Inputs,
    chunks: Sequence[int],
    generation: pb.Generation,
    max_new_tokens: int,
    seed: int,
) -> FreeRun:
    """Generate from the prompt in `inputs`, fed in `chunks`; a sample draws with torch's generator, seeded."""
    reference.decoder.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]  # nothing is left to a checkpoint's own defaults
    options = generate_options(generation, max_new_tokens)
    if len(chunks) > 1:
        options["prefill_chunk_size"] = chunks[0]
    torch.manual_seed(seed)
    output = hf_generate(reference, inputs, **options)
    prompt = inputs["input.decoder_input_ids"].shape[1]
    logits = [tensor.float().numpy() for tensor in output.logits]
    ids = output.sequences[:, prompt:].numpy()
    generated = np.full((len(ids), max_new_tokens), generation.pad_token_id, np.int64)
    generated[:, : ids.shape[1]] = ids
    steps = (*chunks, *[1] * (len(logits) - 1))
    fed = generated[:, : len(logits) - 1]
    ended = np.isin(fed, list(generation.eos_token_id))
    real: Array = np.cumsum(ended, axis=1) - ended == 0
    whole = _continued(inputs, fed, real)
    if generation.strategy == "sample":
        return FreeRun(whole, steps, None, 0.0, logits)
    return FreeRun(whole, steps, generated, _margin(output.scores, real), logits)


def _continued(inputs: Inputs, fed: Array, real: Array) -> dict[str, Array]:
    """The case's inputs: the prompt with what was fed behind it; what stands behind a row's end is padding."""
    whole = {name: array for name, array in inputs.items() if "decoder" not in name}
    whole["input.decoder_input_ids"] = np.concatenate([inputs["input.decoder_input_ids"], fed], axis=1)
    mask = np.concatenate([inputs["input.decoder_attention_mask"], real], axis=1)
    whole["input.decoder_attention_mask"] = mask
    whole["input.decoder_position_ids"] = np.maximum(np.cumsum(mask, axis=1, dtype=np.int64) - 1, 0)
    return whole


def _margin(scores: Sequence[torch.Tensor], real: Array) -> float:
    """The smallest distance of the two best logits, penalised as they were, over the tokens that count."""
    counted = np.concatenate([np.ones((len(real), 1), bool), real], axis=1)
    best = [tensor.topk(2, dim=-1).values.numpy() for tensor in scores]
    return float(min((top[row, 0] - top[row, 1]) for n, top in enumerate(best) for row in np.nonzero(counted[:, n])[0]))


def _processors(decoder: Any, inputs: Inputs, generation: pb.Generation, max_new_tokens: int) -> LogitsProcessorList:
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
    filters = _processors(decoder, free.inputs, generation, message.max_new_tokens) if of_sample else None
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
