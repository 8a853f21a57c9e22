"""Our modules one by one, each on the inputs that a golden holds: an early fault cannot reach a later op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_encdec.attention import probabilities, scaled_scores, weighted_values
from qwen3_encdec.masks import additive_mask
from qwen3_encdec.rope import apply_rotary, rotary_tables
from qwen3_golden import Place, Recording, Tensor, place, tensor
from qwen3_reference.torch_tensors import to_numpy, to_torch

Inputs = Sequence[torch.Tensor]


def _module(model: Qwen3ForSeq2SeqLM, tap_place: Place) -> nn.Module:
    """The module that holds the place's parameters."""
    return model.get_submodule(tap_place.parameters[0].removesuffix(".weight"))


def _heads(x: torch.Tensor, head_dim: int) -> torch.Tensor:
    """`[batch, seq, channel]`, or the same already split -> `[batch, seq, heads, head_dim]`."""
    return x if x.ndim == 4 else x.view(*x.shape[:2], -1, head_dim)


def _linear(model: Qwen3ForSeq2SeqLM, tap_place: Place, inputs: Inputs) -> torch.Tensor:
    output: torch.Tensor = _module(model, tap_place)(inputs[0].flatten(2))
    return output


def _norm(model: Qwen3ForSeq2SeqLM, tap_place: Place, inputs: Inputs) -> torch.Tensor:
    x = _heads(inputs[0], model.config.head_dim) if tap_place.op == "head_norm" else inputs[0]
    output: torch.Tensor = _module(model, tap_place)(x)
    return output


def _rope(model: Qwen3ForSeq2SeqLM, tap_place: Place, inputs: Inputs) -> torch.Tensor:
    x, cos, sin = inputs
    return apply_rotary(_heads(x, model.config.head_dim).transpose(1, 2), cos, sin)


def _tables(which: int) -> Callable[[Qwen3ForSeq2SeqLM, Place, Inputs], torch.Tensor]:
    def tables(model: Qwen3ForSeq2SeqLM, tap_place: Place, inputs: Inputs) -> torch.Tensor:
        positions, inv_freq = inputs
        factor = model.decoder.rotary_emb.attention_factor
        return rotary_tables(inv_freq, positions, model.dtype, factor)[which]

    return tables


def _scores(model: Qwen3ForSeq2SeqLM, tap_place: Place, inputs: Inputs) -> torch.Tensor:
    query, key = inputs[0], torch.cat(list(inputs[1:]), dim=2)
    return scaled_scores(query, key, model.config.head_dim**-0.5, query.shape[1] // key.shape[1])


def _softmax(model: Qwen3ForSeq2SeqLM, tap_place: Place, inputs: Inputs) -> torch.Tensor:
    scores, mask = inputs
    return probabilities(scores, additive_mask(mask[:, None], scores.dtype), scores.dtype)


def _context(model: Qwen3ForSeq2SeqLM, tap_place: Place, inputs: Inputs) -> torch.Tensor:
    probs, head_dim = inputs[0], model.config.head_dim
    values = [v if v.ndim == 4 else _heads(v, head_dim).transpose(1, 2) for v in inputs[1:]]
    value = torch.cat(values, dim=2)
    return weighted_values(probs, value, probs.shape[1] // value.shape[1])


OPS: dict[str, Callable[[Qwen3ForSeq2SeqLM, Place, Inputs], torch.Tensor]] = {
    "linear": _linear,
    "rms_norm": _norm,
    "head_norm": _norm,
    "rope": _rope,
    "cos": _tables(0),
    "sin": _tables(1),
    "scores": _scores,
    "softmax": _softmax,
    "context": _context,
}
"""The ops that stand alone in our code; sums, copies and the gate are lines of a forward, and judged in whole runs."""


@torch.no_grad()
def alone(golden: Recording, model: Qwen3ForSeq2SeqLM) -> Recording:
    """Each op of `OPS` that the golden has, by our code on the golden's inputs, as a recording of the same case."""
    config = golden.case.config
    names = {t.info.name for t in golden}
    tensors: list[Tensor] = []
    for item in golden:
        tap_place = place(item.info.name, config.num_hidden_layers)
        if tap_place is None or tap_place.op not in OPS:
            continue
        operands = [golden.get(n, item.info.step) or golden.get(n) for n in tap_place.inputs_in(names, config)]
        inputs = [to_torch(operand.array, operand.info.dtype) for operand in operands if operand is not None]
        if len(inputs) < len(tap_place.inputs) - len(tap_place.optional):
            continue
        array, dtype = to_numpy(OPS[tap_place.op](model, tap_place, inputs))
        tensors.append(
            tensor(item.info.name, array, step=item.info.step, dtype=dtype, axes=tap_place.axes, op=tap_place.op)
        )
    return Recording(golden.case, golden.provenance, golden.run, tensors)
