"""How each op is computed again from a site: one function for each op, `OPS` is the list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.angles import close_unit, honest_angles, nearest_table
from qwen3_parity.blame.gradients import GRADIENT_OPS
from qwen3_parity.blame.recompute_choices import CHOICE_OPS
from qwen3_parity.blame.recompute_classic import CLASSIC_OPS
from qwen3_parity.blame.site import Result, Site
from qwen3_spec import masks, ops, units


def split_heads(values: Array, head_dim: int) -> Array:
    """`[batch, seq, channel]` or `[batch, seq, heads, head_dim]` -> `[batch, seq, heads, head_dim]`."""
    return values if values.ndim == 4 else values.reshape(*values.shape[:2], -1, head_dim)


def heads_first(values: Array, head_dim: int) -> Array:
    """`[batch, seq, channel]` or `[batch, seq, heads, head_dim]` -> `[batch, heads, seq, head_dim]`."""
    return np.swapaxes(split_heads(values, head_dim), 1, 2)


def _linear(site: Site) -> Result:
    x = site.inputs[0]
    x = x.reshape(*x.shape[:2], -1)
    weight, bias = site.parameters["weight"], site.parameters.get("bias")
    return units.linear_judged(x, weight, bias)


def _rms_norm(site: Site) -> Result:
    x = site.inputs[0]
    y = ops.rms_norm(x, site.parameters["weight"], site.config.rms_norm_eps)
    return y, units.rms_norm_unit(y, x)


def _head_norm(site: Site) -> Result:
    x = split_heads(site.inputs[0], site.config.head_dim)
    y = ops.rms_norm(x, site.parameters["weight"], site.config.rms_norm_eps)
    return y, units.rms_norm_unit(y, x)


def _rope(site: Site) -> Result:
    x, cos, sin = site.inputs
    x = heads_first(x, site.config.head_dim)
    return ops.apply_rope(x, cos, sin), units.apply_rope_unit(x, cos, sin)


def _inv_freq(site: Site) -> Result:
    theta, scaling = site.config.rope_theta, site.config.rope_scaling
    y = ops.inv_freq(site.config.head_dim, theta, scaling)
    unit = units.inv_freq_unit(y, theta, scaling)
    if site.values.recorded(site.place.name, site.step) is None:
        return y, np.maximum(unit, 2 * np.spacing(y.astype(np.float32)))  # how far libraries are apart
    return y, unit


def angles_of(site: Site) -> Iterator[Array]:
    """The honest angles of a cos or sin, by the positions and frequencies that it was made from."""
    positions, inv_freq = site.inputs
    wide = ops.inv_freq(site.config.head_dim, site.config.rope_theta, site.config.rope_scaling)
    return honest_angles(positions, inv_freq, wide, recorded=site.values.recorded(site.names[1], site.step) is not None)


def _table(which: int) -> Callable[[Site], Result]:
    def table(site: Site) -> Result:
        positions, inv_freq = site.inputs
        factor, actual = site.config.attention_factor, site.values.recorded(site.place.name, site.step)
        if actual is None:
            y = ops.rope_table(positions, inv_freq, factor)[which]
            return y, units.rope_table_unit(positions, inv_freq, factor)
        y = nearest_table(actual, which, angles_of(site), factor)
        return y, close_unit(y.shape, factor)

    return table


def _scores(site: Site) -> Result:
    q, keys = site.inputs[0], np.concatenate(site.inputs[1:], axis=2)
    return ops.scores(q, keys, site.scaling), units.scores_unit(q, keys, site.scaling)


def _softmax(site: Site) -> Result:
    scores, mask = site.inputs
    y = ops.softmax(scores, mask)
    # A hidden NaN reaches the row wherever masks are added; what follows from it is nobody's fault here.
    y = np.where(np.isfinite(scores).all(axis=-1, keepdims=True), y, np.nan)
    return y, units.softmax_unit(y, scores, mask)


def all_values(site: Site) -> Array:
    """The values that a context weighs, `[batch, kv_heads, key, head_dim]`: the decoder's, then the encoder's."""
    # The encoder's own values are its v_proj; the decoder's come from the cache, heads first already.
    values = [heads_first(v, site.config.head_dim) if v.ndim == 3 else v for v in site.inputs[1:]]
    return np.concatenate(values, axis=2)


def _context(site: Site) -> Result:
    probs, v = site.inputs[0], all_values(site)
    scores = site.values.value(site.sibling("scores"), site.step)
    s = np.zeros_like(probs) if scores is None or scores.shape != probs.shape else scores
    return ops.context(probs, v), units.context_unit(probs, v, s)


def _residual(site: Site) -> Result:
    a, b = site.inputs
    return ops.residual(a, b), units.residual_unit(a, b)


def _swiglu(site: Site) -> Result:
    gate, up = site.inputs
    y = ops.swiglu(gate, up, site.config.hidden_act)
    return y, units.swiglu_unit(y, gate, up, site.config.hidden_act)


def this_step(values: Array, site: Site) -> Array:
    """The slots `[batch, length, …]` of this step out of all of a stack's `[batch, total, …]`."""
    stop = site.stop if site.stack == "decoder" and "encoder_" not in site.place.name else values.shape[1]
    return values[:, stop - site.length : stop]


def _embedding(site: Site) -> Result:
    return ops.embedding(this_step(site.inputs[0], site), site.parameters["weight"]), None


def _position_ids(site: Site) -> Result:
    return this_step(site.inputs[0], site), None


def _copy(site: Site) -> Result:
    of_all = site.names[0].endswith("_inputs_embeds")
    return this_step(site.inputs[0], site) if of_all else site.inputs[0], None


def _mask(site: Site) -> Result:
    if site.stack == "encoder":
        return masks.encoder_mask(site.inputs[0], site.window)[:, -site.length :], None
    own, memory = site.inputs[0][:, : site.stop], site.inputs[1] if len(site.inputs) > 1 else None
    return masks.merged(own, memory, site.length, site.window), None


def _cache(site: Site) -> Result:
    new = site.inputs[0]
    new = heads_first(new, site.config.head_dim) if new.ndim == 3 else new
    return (new if site.before is None else np.concatenate([site.before, new], axis=2)), None


def _moved_or_not(site: Site, before: Array) -> Array:
    """The encoder's half, by the beams' rows where it was moved: a source's beams have the same, so either will do."""
    beam_idx, held = site.values.recorded("input.beam_idx", 0), site.values.recorded(site.place.name, site.step)
    if beam_idx is None or held is None:
        return before
    moved = before[beam_idx[site.step]]
    return moved if np.array_equal(held, moved) else before


def _cache_once(site: Site) -> Result:
    if site.before is not None:
        return _moved_or_not(site, site.before), None
    # Keys that were rotated are heads first already; norms and projections are not.
    rotated = site.names[0].endswith("_rope")
    return (site.inputs[0] if rotated else heads_first(site.inputs[0], site.config.head_dim)), None


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
    **CHOICE_OPS,
    **CLASSIC_OPS,
    **GRADIENT_OPS,
}
"""How each op is computed again; `input` is given."""
