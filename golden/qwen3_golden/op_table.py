"""What a case of one op has: operands, numbers, outputs. Its axes are those of docs/port-to-another-language.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")

_TABLE = """
rms_norm   | x[batch query hidden] weight[hidden] | eps | y[batch query hidden]
head_norm  | x[batch query heads head_dim] weight[head_dim] | eps | y[batch query heads head_dim]
linear     | x[batch query in] weight[out in] bias?[out] | | y[batch query out=hidden]
embedding  | ids[batch query] weight[vocab hidden] | | y[batch query hidden]
inv_freq   | | head_dim:int theta factor? original_max_position_embeddings:int? attention_factor? beta_fast? \
beta_slow? truncate:bool? | inv_freq[pair]
rope_table | position_ids[batch query] inv_freq[pair] | attention_factor? | \
cos[batch query head_dim] sin[batch query head_dim]
rope       | q[batch heads query head_dim] k[batch kv_heads query head_dim] cos[batch query head_dim] \
sin[batch query head_dim] | | q[batch heads query head_dim] k[batch kv_heads=heads query head_dim]
repeat_kv  | x[batch kv_heads key head_dim] | groups:int | y[batch heads=kv_heads key head_dim]
scores     | q[batch heads query head_dim] k[batch kv_heads key head_dim] | scaling | scores[batch heads query key]
softmax    | scores[batch heads query key] mask[batch query key] | | probs[batch heads query key]
context    | probs[batch heads query key] v[batch kv_heads key head_dim] | | context[batch query heads head_dim]
swiglu     | gate[batch query intermediate] up[batch query intermediate] | | act[batch query intermediate]
mask       | encoder_attention_mask?[batch source] decoder_attention_mask?[batch slot] | query:int window:int | \
mask[batch query key]
next_token_probs | logits[batch vocab] ids[batch slot] | repetition_penalty temperature top_k:int top_p min_p | \
probs[batch vocab]
"""
"""`?`: some cases have it. `out=hidden`: the axis `out`, which goldens call `hidden`."""

_TENSOR = re.compile(r"(\w+)(\??)\[([^]]*)\]")
_NUMBER = re.compile(r"(\w+)(?::(\w+))?(\??)")
_KINDS: Mapping[str, type] = {"": float, "int": int, "bool": bool}


@dataclass(frozen=True)
class OpTensor:
    """A tensor of an op's case: its name ("input.x", "parameter.bias", "output.y"), its axes and a golden's for it."""

    name: str
    axes: tuple[str, ...]
    recorded_axes: tuple[str, ...]
    optional: bool


@dataclass(frozen=True)
class OpRow:
    """What cases of an op have; `kinds` gives each number its type, `optional` are the numbers that may be absent."""

    operands: tuple[OpTensor, ...]
    outputs: tuple[OpTensor, ...]
    kinds: Mapping[str, type]
    optional: frozenset[str]

    @cached_property
    def tensors(self) -> Mapping[str, OpTensor]:
        """Operands, then outputs, by name."""
        return {each.name: each for each in (*self.operands, *self.outputs)}

    def numbers(self, attributes: Mapping[str, float]) -> dict[str, Any]:
        """A case's numbers, each of its type; raises `KeyError` for one that is absent and may not be."""
        present = [name for name in self.kinds if name in attributes or name not in self.optional]
        return {name: self.kinds[name](attributes[name]) for name in present}

    def sizes(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """How long each axis is; raises `KeyError` for an absent operand and `ValueError` for sizes that disagree."""
        lengths = dict[str, int]()
        for name, each in self.tensors.items():
            if each.optional and name not in arrays:
                continue
            for axis, size in zip(each.axes, arrays[name].shape, strict=True):
                if lengths.setdefault(axis, size) != size:
                    raise ValueError(f"{name} has {size} along {axis}, tensors before it have {lengths[axis]}")
        return lengths

    def computed(
        self, function: Callable[..., Any], tensors: Mapping[str, T], attributes: Mapping[str, float], **more: Any
    ) -> dict[str, T]:
        """The outputs by name: `function` gets operands in order, None for an absent one, and numbers by name.

        It gives the output, or a tuple of them. Raises `KeyError` for what is absent and may not be.
        """
        operands = [tensors.get(each.name) if each.optional else tensors[each.name] for each in self.operands]
        result = function(*operands, **self.numbers(attributes), **more)
        results = result if isinstance(result, tuple) else (result,)
        return {each.name: value for each, value in zip(self.outputs, results, strict=True)}


def _tensors(cell: str, kind: str) -> tuple[OpTensor, ...]:
    tensors = []
    for name, optional, axes in _TENSOR.findall(cell):
        first = "parameter" if name in ("weight", "bias") else kind
        pairs = [axis.split("=") for axis in axes.split()]
        names, recorded = tuple(pair[0] for pair in pairs), tuple(pair[-1] for pair in pairs)
        tensors.append(OpTensor(f"{first}.{name}", names, recorded, bool(optional)))
    return tuple(tensors)


def _row(operands: str, numbers: str, outputs: str) -> OpRow:
    cells = _NUMBER.findall(numbers)
    kinds = {name: _KINDS[kind] for name, kind, _ in cells}
    optional = frozenset(name for name, _, may in cells if may)
    return OpRow(_tensors(operands, "input"), _tensors(outputs, "output"), kinds, optional)


OP_TABLE: Mapping[str, OpRow] = {
    op.strip(): _row(*cells) for op, *cells in (line.split("|") for line in _TABLE.strip().splitlines())
}
"""By `case.op`, in the order of the network."""
