"""One training step of Hugging Face's Qwen3: the loss by labels that nobody shifts, and every gradient by autograd.

The models are those of `run`, in training mode without dropout: the encoder, and the decoder whose cache returns the
encoder's keys and values as well; gradients flow through it. A causal model is trained as anybody trains it, with a 2-D
mask and no cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from qwen3_golden.taps import table
from qwen3_reference.binding import attach, everything
from qwen3_reference.caches import CACHE
from qwen3_reference.capture.merged_cache import MergedCache
from qwen3_reference.capture.models import Reference
from qwen3_reference.capture.run import Inputs, StepSink, as_tensor, memory_of, merged_masks
from qwen3_reference.checkpoints.weights import canonical

LOSS, GRADIENT = "loss", "gradient."


@dataclass
class Trained:
    """What a step left: the loss (a scalar), every tap forward, the gradients of parameters by canonical name.

    `parameters` has one embedding for each of Hugging Face's models; `totals` has their sum, under the table's name.
    """

    loss: torch.Tensor = field(default_factory=lambda: torch.zeros(()))
    taps: dict[str, torch.Tensor] = field(default_factory=dict)
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)

    def keep(self, name: str, value: torch.Tensor) -> None:
        """The sink of the hooks: the tensor itself, which will hold its gradient."""
        self.taps[name] = value
        if value.requires_grad and not value.is_leaf:
            value.retain_grad()

    def activations(self) -> dict[str, torch.Tensor]:
        """The gradients of the taps that autograd passed, last first; a slice made for the recorder alone has none."""
        gradients = {n: v.grad for n, v in reversed(self.taps.items()) if not v.is_leaf and v.requires_grad}
        return {name: gradient for name, gradient in gradients.items() if gradient is not None}

    def totals(self) -> dict[str, torch.Tensor]:
        """The gradients of parameters, the embedding's summed over the models that have one each."""
        row = next(row for row in table() if row.op == "embedding_gradient")
        embedded = (name.removeprefix(GRADIENT).rstrip("?") for name in row.inputs if name.startswith(GRADIENT))
        uses = {f"{name}.weight" for name in embedded} & self.parameters.keys()
        rest = {name: gradient for name, gradient in self.parameters.items() if name not in uses}
        total = torch.stack([self.parameters[name] for name in sorted(uses)]).sum(dim=0)
        return rest | {row.pattern.removeprefix(GRADIENT): total}


def prepare(reference: Reference) -> Reference:
    """The models in training mode, their dropout switched off."""
    for model in (reference.encoder, reference.decoder):
        for module in () if model is None else model.train().modules():
            if hasattr(module, "attention_dropout"):
                module.attention_dropout = 0.0
    return reference


def padding_idx(reference: Reference) -> int | None:
    """The id whose look-up trains nothing."""
    embedding: nn.Embedding = reference.decoder.model.embed_tokens
    return embedding.padding_idx


def train(reference: Reference, inputs: Inputs, records: Callable[[str], bool] = everything, **loss: Any) -> Trained:
    """One step on `inputs`, with `input.labels [batch, total]`, which are taken as they stand.

    (HF shifts `labels` itself, unless it is given `shift_labels`.) `loss` goes to HF's loss function beside them.
    """
    labels = as_tensor(inputs, "labels")
    arguments = {"labels": labels, "shift_labels": labels} | loss
    step = _causal if reference.encoder is None else _merged
    result = Trained()
    output = step(reference, inputs, result, records, arguments)
    result.keep("logits", output.logits)
    result.loss = output.loss
    result.loss.backward()  # type: ignore[no-untyped-call]
    for role, model in (("encoder", reference.encoder), ("decoder", reference.decoder)):
        for name, parameter in () if model is None else model.named_parameters():
            result.parameters[canonical(role, name)] = parameter.grad
    return result


def _of(inputs: Inputs, stack: str) -> dict[str, torch.Tensor]:
    names = ("input_ids", "attention_mask", "position_ids")
    return {name: as_tensor(inputs, f"{stack}_{name}") for name in names}


def _merged(
    reference: Reference, inputs: Inputs, result: Trained, records: Callable[[str], bool], labels: dict[str, Any]
) -> Any:
    encoder, decoder = reference.encoder, reference.decoder
    source, target = _of(inputs, "encoder"), _of(inputs, "decoder")
    with attach(encoder, "encoder", result.keep, records=records):
        padded = source | {"attention_mask": source["attention_mask"].long()}
        hidden = encoder(**padded, use_cache=False).last_hidden_state
    length = hidden.shape[1]
    with attach(decoder.model, "decoder", result.keep, records=records, encoder_length=length):
        memory = memory_of(reference, hidden, source["position_ids"])
        cache = MergedCache([layer.self_attn for layer in decoder.model.layers], memory)
        masks = merged_masks(decoder, cache, target["input_ids"], target["attention_mask"], source["attention_mask"])
        return decoder(**(target | {"attention_mask": masks, CACHE: cache}), **labels)


def _causal(
    reference: Reference, inputs: Inputs, result: Trained, records: Callable[[str], bool], labels: dict[str, Any]
) -> Any:
    target = _of(inputs, "decoder")
    padded = target | {"attention_mask": target["attention_mask"].long()}
    with attach(reference.decoder.model, "decoder", result.keep, records=records):
        return reference.decoder(**padded, use_cache=False, **labels)


def train_reference(reference: Reference, inputs: Inputs, sink: StepSink, records: Callable[[str], bool]) -> None:
    """Run a training case; every wanted tap goes to `sink(0, name, tensor)`: forward, the loss, then the gradients."""
    result = train(prepare(reference), inputs)
    gradients = result.activations() | result.totals()
    taps = result.taps | {LOSS: result.loss} | {f"{GRADIENT}{name}": gradient for name, gradient in gradients.items()}
    for name, value in taps.items():
        if records(name):
            sink(0, name, value.detach())
