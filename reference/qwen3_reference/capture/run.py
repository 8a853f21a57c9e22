"""Running Hugging Face's Qwen3 on a case: the bidirectional encoder, the causal decoder, the merged decoder.

Positions and padding are always given explicitly. The encoder is HF's `Qwen3Model` with its own configuration and
`is_causal = False`; the decoder is `Qwen3ForCausalLM` with `MergedCache` and, for every layer type, HF's own causal or
sliding mask over the decoder's slots with the encoder's columns (hidden by padding alone) behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

from qwen3_golden import Array
from qwen3_reference.binding import Sink, attach, encoder_half, everything
from qwen3_reference.caches import CACHE
from qwen3_reference.capture.merged_cache import Memory, MergedCache
from qwen3_reference.capture.models import Reference
from qwen3_reference.capture.softmax_check import additive

StepSink = Callable[[int, str, torch.Tensor], None]
Inputs = Mapping[str, Array]
Layers = Callable[[Sequence[nn.Module], MergedCache | None], AbstractContextManager[None]]
"""`layers(modules, cache)`: the context in which a stack's layers run; the encoder has no cache."""


def as_they_are(_modules: Sequence[nn.Module], _cache: MergedCache | None) -> AbstractContextManager[None]:
    """The ordinary `Layers`: nothing is done to them."""
    return nullcontext()


def as_tensor(inputs: Inputs, name: str) -> torch.Tensor:
    """The input `input.<name>` of a case, a copy of its own."""
    return torch.from_numpy(np.array(inputs[f"input.{name}"]))


def given_tokens(inputs: Inputs, stack: str) -> tuple[str, torch.Tensor]:
    """What a stack is given, by HF's name for it: `input_ids[batch, seq]` or `inputs_embeds[batch, seq, hidden]`."""
    name = "inputs_embeds" if f"input.{stack}_inputs_embeds" in inputs else "input_ids"
    return name, as_tensor(inputs, f"{stack}_{name}")


def run_encoder(
    encoder: Any, inputs: Inputs, sink: Sink, records: Callable[[str], bool], layers: Layers = as_they_are
) -> torch.Tensor:
    """The encoder's final-normed output `[batch, seq, hidden]`, its taps handed to `sink(name, tensor)`."""
    hooks = attach(encoder, "encoder", sink, records=records)
    name, tokens = given_tokens(inputs, "encoder")
    with torch.no_grad(), hooks, layers(encoder.layers, None):
        output = encoder(
            **{name: tokens},
            attention_mask=as_tensor(inputs, "encoder_attention_mask").long(),
            position_ids=as_tensor(inputs, "encoder_position_ids"),
            use_cache=False,
        )
    hidden: torch.Tensor = output.last_hidden_state
    return hidden


def merged_masks(
    decoder: Any, cache: MergedCache, ids: torch.Tensor, decoder_mask: torch.Tensor, encoder_mask: torch.Tensor | None
) -> dict[str, torch.Tensor] | torch.Tensor:
    """The additive mask `[batch, 1, query, own + memory]` of each layer type, for the step that comes next.

    `ids[batch, query]`, or hidden states; `decoder_mask[batch, past + query]`, `encoder_mask[batch, memory]`, True = a
    real token; a `decoder_mask[batch, past + query, past + query]` says which slot sees which, in every layer.
    """
    config = decoder.config
    dtype = decoder.dtype
    arguments: dict[str, Any] = {
        "config": config,
        "inputs_embeds": torch.empty(*ids.shape[:2], 1, dtype=dtype),
        "attention_mask": decoder_mask.long(),
        CACHE: cache,
        "position_ids": None,  # with positions HF looks for packed sequences
    }
    builders: dict[str, Callable[..., Any]] = {
        "full_attention": create_causal_mask,
        "sliding_attention": create_sliding_window_causal_mask,
    }
    kinds = dict.fromkeys(getattr(config, "layer_types", None) or ("full_attention",))
    if decoder_mask.ndim == 3:  # HF takes a 4-D mask as it is
        additive_mask = additive(decoder_mask[:, None, -ids.shape[1] :], dtype)
        masks: dict[str, torch.Tensor] = dict.fromkeys(kinds, additive_mask)
    else:
        masks = {kind: builders[kind](**arguments) for kind in kinds}
    # Under SDPA they are bool; joined with an additive mask, True would become a bias of 1.
    masks = {kind: additive(mask, dtype) if mask.dtype == torch.bool else mask for kind, mask in masks.items()}
    if encoder_mask is not None:
        shown = encoder_mask[:, None, None].expand(-1, 1, ids.shape[1], -1)
        masks = {kind: torch.cat([mask, additive(shown, dtype)], dim=-1) for kind, mask in masks.items()}
    # A model whose layers are all of one kind is not asked for kinds, and takes the mask itself.
    return masks if getattr(config, "layer_types", None) else masks["full_attention"]


def memory_of(reference: Reference, hidden: torch.Tensor, positions: torch.Tensor) -> Memory:
    """What the merged decoder reads of the encoder: its output, and its RoPE tables where its keys are rotated."""
    if not reference.rotate_encoder_keys:
        return Memory(hidden, None)
    with encoder_half():
        return Memory(hidden, reference.decoder.model.rotary_emb(hidden, positions))


@contextmanager
def _request(
    reference: Reference,
    inputs: Inputs,
    hidden: torch.Tensor | None,
    sink: Sink,
    records: Callable[[str], bool],
    layers: Layers = as_they_are,
) -> Iterator[Callable[..., torch.Tensor]]:
    """One request to the decoder: gives `forward(ids, positions, decoder_mask) -> logits`, step by step."""
    decoder = reference.decoder
    name, _ = given_tokens(inputs, "decoder")
    length = 0 if hidden is None else hidden.shape[1]
    hooks = attach(decoder.model, "decoder", sink, records=records, encoder_length=length)
    with torch.no_grad(), hooks:
        memory = encoder_mask = None
        if hidden is not None:
            encoder_mask = as_tensor(inputs, "encoder_attention_mask")
            memory = memory_of(reference, hidden, as_tensor(inputs, "encoder_position_ids"))
        cache = MergedCache([layer.self_attn for layer in decoder.model.layers], memory)

        def forward(ids: torch.Tensor, positions: torch.Tensor, decoder_mask: torch.Tensor) -> torch.Tensor:
            masks = merged_masks(decoder, cache, ids, decoder_mask, encoder_mask)
            held = {name: ids, CACHE: cache}
            output = decoder(**held, attention_mask=masks, position_ids=positions, use_cache=True)
            logits: torch.Tensor = output.logits
            return logits

        with layers(decoder.model.layers, cache):
            yield forward


def run_reference(
    reference: Reference,
    inputs: Inputs,
    steps: Sequence[int],
    sink: StepSink,
    records: Callable[[str], bool] = everything,
    layers: Layers = as_they_are,
) -> None:
    """Run a case: the encoder if there is one, then the decoder over its ids in `steps` (query lengths, in order).

    Every wanted tap goes to `sink(step, name, tensor)`, by reference and in execution order; each stack's layers run
    within `layers`. Raises `ParityError` when
    a recorded softmax does not follow from its scores and mask.
    """
    step = 0

    def stepped(name: str, value: torch.Tensor) -> None:
        sink(step, name, value)

    hidden = None if reference.encoder is None else run_encoder(reference.encoder, inputs, stepped, records, layers)
    if reference.decoder is None:
        return
    (_, ids), positions = given_tokens(inputs, "decoder"), as_tensor(inputs, "decoder_position_ids")
    mask = as_tensor(inputs, "decoder_mask" if "input.decoder_mask" in inputs else "decoder_attention_mask")
    with _request(reference, inputs, hidden, stepped, records, layers) as forward:
        end = 0
        for step, length in enumerate(steps):  # noqa: B007 - `stepped` reads it
            start, end = end, end + length
            shown = mask[(slice(None), *[slice(end)] * (mask.ndim - 1))]
            logits = forward(ids[:, start:end], positions[:, start:end], shown)
            if records("logits"):
                stepped("logits", logits)


def generate_greedy(reference: Reference, inputs: Inputs, prompt: int, new_tokens: int) -> tuple[Array, float]:
    """Greedy continuation of the first `prompt` decoder ids: ids `[batch, new]` and the smallest top-2 margin met.

    No id ends a row. Positions go on from each row's last one.
    """

    def nothing(_name: str, _value: torch.Tensor) -> None:
        raise AssertionError("no tap is wanted")

    def unwanted(_name: str) -> bool:
        return False

    hidden = None if reference.encoder is None else run_encoder(reference.encoder, inputs, nothing, unwanted)
    ids = as_tensor(inputs, "decoder_input_ids")[:, :prompt]
    positions = as_tensor(inputs, "decoder_position_ids")[:, :prompt]
    mask = as_tensor(inputs, "decoder_attention_mask")[:, :prompt]
    generated, margins = [], []
    with _request(reference, inputs, hidden, nothing, unwanted) as forward:
        for _ in range(new_tokens):
            last = forward(ids, positions, mask)[:, -1].float()
            best = last.topk(2, dim=-1).values
            margins.append(float((best[:, 0] - best[:, 1]).min()))
            ids = last.argmax(dim=-1, keepdim=True)
            generated.append(ids)
            positions = positions[:, -1:] + 1
            mask = torch.cat([mask, torch.ones_like(ids, dtype=torch.bool)], dim=1)
    return torch.cat(generated, dim=1).numpy(), min(margins)
