"""How each op is computed again from what a recording holds: one function for each op, `OPS` is the list of them.

Each gives the truth in float64 and the op's rounding unit as float32 would have it, both on the recorded inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, Place, Recording, Tensor, pb
from qwen3_spec import masks, ops, units

_ACTIVATIONS = {"gelu_pytorch_tanh": "gelu_tanh"}


@dataclass(frozen=True)
class Site:
    """A tap to be computed again: where it is, the values of its inputs in the op's order, and the parameters."""

    recording: Recording
    weights: Mapping[str, Array]
    place: Place
    tensor: Tensor
    names: tuple[str, ...]
    inputs: tuple[Array, ...]

    @property
    def config(self) -> pb.ModelConfig:
        """The case's model configuration."""
        return self.recording.case.config

    @property
    def step(self) -> int:
        """Which forward."""
        return self.tensor.info.step

    @property
    def stop(self) -> int:
        """Decoder slots after this step."""
        return sum(self.recording.case.steps[: self.step + 1])

    def parameter(self, kind: str) -> Array | None:
        """The weight or bias, None for one that the checkpoint does not have."""
        names = [name for name in self.place.parameters if name.endswith(f".{kind}") and name in self.weights]
        return self.weights[names[0]] if names else None

    def required(self, kind: str) -> Array:
        """As `parameter`; raises `KeyError` when it is not there."""
        found = self.parameter(kind)
        if found is None:
            raise KeyError(f"{self.place.name}: no {kind} among the parameters")
        return found


Result = tuple[Array, Array | None]
"""The truth, and its rounding unit; None: exact."""


def _heads(values: Array, head_dim: int) -> Array:
    """`[batch, seq, channel]` or `[batch, seq, heads, head_dim]` -> `[batch, seq, heads, head_dim]`."""
    return values if values.ndim == 4 else values.reshape(*values.shape[:2], -1, head_dim)


def _heads_first(values: Array, head_dim: int) -> Array:
    return np.swapaxes(_heads(values, head_dim), 1, 2)


def _linear(site: Site) -> Result:
    x = site.inputs[0]
    x = x.reshape(*x.shape[:2], -1)
    weight, bias = site.required("weight"), site.parameter("bias")
    return ops.linear(x, weight, bias), units.linear_unit(x, weight, bias)


def _rms_norm(site: Site) -> Result:
    x = site.inputs[0]
    y = ops.rms_norm(x, site.required("weight"), site.config.rms_norm_eps)
    return y, units.rms_norm_unit(y)


def _head_norm(site: Site) -> Result:
    y = ops.rms_norm(_heads(site.inputs[0], site.config.head_dim), site.required("weight"), site.config.rms_norm_eps)
    return y, units.rms_norm_unit(y)


def _rope(site: Site) -> Result:
    x, cos, sin = site.inputs
    x = _heads_first(x, site.config.head_dim)
    return ops.apply_rope(x, cos, sin), units.apply_rope_unit(x, cos, sin)


def _inv_freq(site: Site) -> Result:
    y = ops.inv_freq(site.config.head_dim, site.config.rope_theta)
    return y, units.inv_freq_unit(y)


def _table(which: int) -> Callable[[Site], Result]:
    def table(site: Site) -> Result:
        positions, inv_freq = site.inputs
        return ops.rope_table(positions, inv_freq)[which], units.rope_table_unit(positions, inv_freq)

    return table


def _scores(site: Site) -> Result:
    q, keys = site.inputs[0], np.concatenate(site.inputs[1:], axis=2)
    scaling = site.config.head_dim**-0.5
    return ops.scores(q, keys, scaling), units.scores_unit(q, keys, scaling)


def _softmax(site: Site) -> Result:
    scores, mask = site.inputs
    y = ops.softmax(scores, mask)
    return y, units.softmax_unit(y, scores, mask)


def _context(site: Site) -> Result:
    probs, head_dim = site.inputs[0], site.config.head_dim
    # The encoder's values are its v_proj; the decoder's come from the cache, heads first already.
    values = [_heads_first(v, head_dim) if v.ndim == 3 else v for v in site.inputs[1:]]
    v = np.concatenate(values, axis=2)
    scores = site.recording.get(f"{site.place.name.rpartition('.')[0]}.scores", site.step)
    s = np.zeros_like(probs) if scores is None else scores.values()
    return ops.context(probs, v), units.context_unit(probs, v, s)


def _residual(site: Site) -> Result:
    a, b = site.inputs
    return ops.residual(a, b), units.residual_unit(a, b)


def _swiglu(site: Site) -> Result:
    gate, up = site.inputs
    act = _ACTIVATIONS.get(site.config.hidden_act, site.config.hidden_act)
    y = ops.swiglu(gate, up, act)
    return y, units.swiglu_unit(y, gate, up, act)


def _embedding(site: Site) -> Result:
    ids = site.inputs[0]
    if site.place.name.startswith("decoder."):
        ids = ids[:, : site.stop]
    ids = ids[:, ids.shape[1] - site.tensor.array.shape[1] :]
    return ops.embedding(ids, site.required("weight")), None


def _copy(site: Site) -> Result:
    return site.inputs[0], None


def _position_ids(site: Site) -> Result:
    ids = site.inputs[0]
    if site.place.name == "decoder.position_ids":
        ids = ids[:, : site.stop]
        ids = ids[:, ids.shape[1] - site.tensor.array.shape[1] :]
    return ids, None


def _mask(site: Site) -> Result:
    layer, config = site.place.layer or 0, site.config
    window = config.sliding_window if config.layer_types[layer] == "sliding_attention" else None
    if site.place.name.startswith("encoder."):
        return masks.encoder_mask(site.inputs[0], window)[:, -site.tensor.array.shape[1] :], None
    query = site.tensor.array.shape[1]
    own, memory = site.inputs[0][:, : site.stop], site.inputs[1] if len(site.inputs) > 1 else None
    return masks.merged(own, memory, query, window), None


def _cache(site: Site) -> Result:
    new = site.inputs[0]
    new = _heads_first(new, site.config.head_dim) if new.ndim == 3 else new
    if site.step == 0:
        return new, None
    before = site.recording[site.place.name, site.step - 1].values()
    return np.concatenate([before, new], axis=2), None


def _cache_once(site: Site) -> Result:
    if site.step > 0:
        return site.recording[site.place.name, 0].values(), None
    # Keys that were rotated are heads first already; norms and projections are not.
    rotated = site.names[0].endswith("_rope")
    return (site.inputs[0] if rotated else _heads_first(site.inputs[0], site.config.head_dim)), None


OPS: dict[str, Callable[[Site], Result]] = {
    "linear": _linear,
    "rms_norm": _rms_norm,
    "head_norm": _head_norm,
    "rope": _rope,
    "inv_freq": _inv_freq,
    "cos": _table(0),
    "sin": _table(1),
    "scores": _scores,
    "softmax": _softmax,
    "context": _context,
    "residual": _residual,
    "swiglu": _swiglu,
    "embedding": _embedding,
    "copy": _copy,
    "position_ids": _position_ids,
    "mask": _mask,
    "cache": _cache,
    "cache_once": _cache_once,
}
"""How each op is computed again. `input` is given and `argmax` follows from the logits: neither is here."""
