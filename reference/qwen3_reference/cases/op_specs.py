"""The op tier by the specification: what each op makes of named tensors and numbers, by the convention of `op_case`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_spec import Arithmetic, RopeScaling, ops
from qwen3_spec.ops.next_token_probs import Sampling, seen_ids

Given = Mapping[str, Array]
Numbers = Mapping[str, float]
Spec = Callable[[Given, Numbers, Arithmetic], Given]
"""`spec(given, numbers, arithmetic)`: the outputs of an op by name, from its input.* and parameter.* tensors."""


def _plain(
    forward: Callable[..., Array], output: str, tensors: Sequence[str], numbers: Sequence[str] = (), *more: object
) -> Spec:
    """An op that takes its tensors and its numbers one after the other, and gives one output."""

    def spec(operands: Given, known: Numbers, arithmetic: Arithmetic) -> Given:
        values = [*(operands.get(name) for name in tensors), *(known[name] for name in numbers), *more]
        return {f"output.{output}": forward(*values, arithmetic=arithmetic)}

    return spec


def rope_numbers(numbers: Numbers) -> tuple[int, float, RopeScaling | None]:
    """head_dim, theta and YaRN's numbers, which `truncate` comes with, of a case of inv_freq."""
    size, theta = int(numbers["head_dim"]), numbers["theta"]
    if "truncate" not in numbers:
        return size, theta, None
    kinds: Mapping[str, type] = {"original_max_position_embeddings": int, "truncate": bool}
    stretched = {name: kinds.get(name, float)(value) for name, value in numbers.items()}
    del stretched["head_dim"], stretched["theta"]
    return size, theta, RopeScaling("yarn", **stretched)


def _inv_freq(_: Given, numbers: Numbers, arithmetic: Arithmetic) -> Given:
    return {"output.inv_freq": ops.inv_freq.forward(*rope_numbers(numbers), arithmetic=arithmetic)}


def _rope_table(operands: Given, numbers: Numbers, arithmetic: Arithmetic) -> Given:
    # The angle is HF's float32 product: that rounding is part of the reference.
    angle = operands["input.position_ids"][..., None].astype(np.float32) * operands["input.inv_freq"]
    angle = arithmetic.cast(np.concatenate([angle, angle], axis=-1))
    factor = arithmetic.dtype(numbers.get("attention_factor", 1.0))
    return {"output.cos": np.cos(angle) * factor, "output.sin": np.sin(angle) * factor}


def _rope(operands: Given, _: Numbers, arithmetic: Arithmetic) -> Given:
    tables = operands["input.cos"], operands["input.sin"]
    return {f"output.{x}": ops.rope.forward(operands[f"input.{x}"], *tables, arithmetic=arithmetic) for x in "qk"}


def _repeat_kv(operands: Given, numbers: Numbers, _: Arithmetic) -> Given:
    return {"output.y": ops.repeat_kv.forward(operands["input.x"], int(numbers["groups"]))}


def _mask(operands: Given, numbers: Numbers, _: Arithmetic) -> Given:
    encoder, decoder = (operands.get(f"input.{stack}_attention_mask") for stack in ("encoder", "decoder"))
    window = int(numbers["window"]) or None
    if decoder is None:
        return {"output.mask": ops.mask.encoder_mask(operands["input.encoder_attention_mask"], window)}
    return {"output.mask": ops.mask.merged(decoder, encoder, int(numbers["query"]), window)}


def _next_token_probs(operands: Given, numbers: Numbers, arithmetic: Arithmetic) -> Given:
    logits, ids = operands["input.logits"], operands["input.ids"]
    previous = seen_ids(ids, np.ones(ids.shape, bool), logits.shape[-1])
    sampling = Sampling(**{name: int(value) if name == "top_k" else value for name, value in numbers.items()})  # type: ignore[arg-type]
    return {"output.probs": ops.next_token_probs.forward(logits, previous, sampling, arithmetic=arithmetic)}


_NORM = _plain(ops.rms_norm.forward, "y", ("input.x", "parameter.weight"), ("eps",))
SPECS: Mapping[str, Spec] = {
    "rms_norm": _NORM,
    "head_norm": _NORM,
    "linear": _plain(ops.linear.forward, "y", ("input.x", "parameter.weight", "parameter.bias")),
    "embedding": _plain(ops.embedding.forward, "y", ("input.ids", "parameter.weight")),
    "inv_freq": _inv_freq,
    "rope_table": _rope_table,
    "rope": _rope,
    "repeat_kv": _repeat_kv,
    "scores": _plain(ops.scores.forward, "scores", ("input.q", "input.k"), ("scaling",)),
    "softmax": _plain(ops.softmax.forward, "probs", ("input.scores", "input.mask")),
    "context": _plain(ops.context.forward, "context", ("input.probs", "input.v")),
    "swiglu": _plain(ops.swiglu.forward, "act", ("input.gate", "input.up"), (), "silu"),
    "mask": _mask,
    "next_token_probs": _next_token_probs,
}
EXACT = frozenset({"embedding", "repeat_kv", "mask"})
"""The ops whose outputs are the same bits wherever they are computed: they have no floor."""
