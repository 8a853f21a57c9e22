"""Wrong numbers for mistakes that are read off a recording: a factor, a bound, a bias, angles of no rule.

The library fits those to what was recorded, so they are seeded here by what they say, and must be found by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes import Hypothesis
from qwen3_parity.mistakes.rms_norm import rows
from qwen3_parity.mistakes.rounding import bfloat16
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS, argmax
from qwen3_spec.site import Result, Site

Change = Callable[[Site, Array], Array | None]
"""What is made of a site's right result; None where it makes no sense."""

_GRADIENTS = tuple(name for name in OPS if name.endswith("_gradient"))
_NORMS = ("rms_norm", "head_norm")


def _random(site: Site, *shape: int) -> Array:
    """Numbers of the layer's own, the same at every step."""
    return np.random.default_rng(7 + (site.place.layer or 0)).standard_normal(shape)


def _usual(y: Array) -> float:
    return float(np.quantile(np.abs(y), 0.8))


def _lost(site: Site, y: Array) -> Array:
    x = site.inputs[0].reshape(*site.inputs[0].shape[:2], -1)
    weight = {**site.parameters, "weight": site.parameters["weight"][:, :-2]}
    return OPS["linear"].truth(replace(site, inputs=(x[..., :-2],), parameters=weight))[0]


def _other_weight(site: Site, y: Array) -> Array:
    weight = site.parameters["weight"]
    changed = {**site.parameters, "weight": weight + 0.1 * _random(site, *weight.shape)}
    return OPS["linear"].truth(replace(site, parameters=changed))[0]


def _turned(site: Site, y: Array) -> Array:
    x = np.asarray(heads_first(site.inputs[0], site.config.head_dim), np.float64)
    turn = _random(site, x.shape[0], x.shape[2], x.shape[3] // 2)
    angle = np.concatenate([turn, turn], axis=-1)
    return ops.rope.forward(x, np.cos(angle), np.sin(angle))


def _without_id(site: Site, y: Array) -> Array | None:
    ids = site.this_step(site.inputs[0])
    if ids.shape != y.shape[:-1]:
        return None
    return np.where((ids == ids.max())[..., None], 0.0, y)


def _id_hidden(site: Site, y: Array) -> Array | None:
    ids = site.values.recorded(f"input.{site.stack}_input_ids", 0)
    if ids is None or not 1 < y.shape[2] <= ids.shape[1]:  # a memory stands before the decoder's own keys
        return None
    keys = ids[:, : y.shape[2]]
    return np.asarray(y & (keys != keys[0, 1])[:, None])


def _runs_on(blind_to: slice, site: Site, y: Array) -> Array | None:
    """Greedy ids that go on behind some of the tokens that end a row: the next one by its logits, then any."""
    if site.place.name != "generated_ids" or site.case.generation.strategy != "greedy":
        return None
    logits, fed = argmax.choices(site)
    search = argmax.search_of(site.case.generation, site.case.max_new_tokens)
    ignored = search.eos[blind_to]
    ids = argmax.greedy_ids(
        logits, fed, replace(search, eos=tuple(token_id for token_id in search.eos if token_id not in ignored))
    )
    return np.where(np.isnan(ids), 7, ids)


def _unpadded(site: Site, y: Array) -> Array | None:
    """Other tokens than padding behind the end of a row, of those that the search does not choose."""
    if site.place.name != "generated_ids" or site.case.generation.strategy != "greedy":
        return None
    ended = np.isin(y, list(site.case.generation.eos_token_id))
    return np.where(np.cumsum(ended, axis=1) - ended > 0, 7, y)


def _dropped(site: Site, y: Array) -> Array:
    return np.where(np.random.default_rng(3).random(y.shape) < 0.2, 0.0, y / 0.8)


def _more_in_the_sum(more: float, site: Site, y: Array) -> Array:
    """The softmax with a number beside its exponentials, after the maximum was subtracted."""
    scores, mask = site.inputs
    visible = np.broadcast_to(mask[:, None].astype(bool), scores.shape)
    peak = np.max(np.where(visible, scores, -np.inf), axis=-1, keepdims=True)
    total = np.where(visible, np.exp(scores - np.where(np.isfinite(peak), peak, 0)), 0).sum(axis=-1, keepdims=True)
    return np.asarray(y * total / (total + more))


def _log_softmax(site: Site, y: Array) -> Array | None:
    return np.log(ops.next_token_probs.softmax(y)) if site.place.name == "logits" else None


def _softmax(site: Site, y: Array) -> Array | None:
    return ops.next_token_probs.softmax(y) if site.place.name == "logits" else None


def _of_heads(site: Site, y: Array) -> Array:
    return y + _random(site, y.shape[1])[:, None, None]


def _first_input(site: Site, y: Array) -> Array | None:
    source = site.values.place(site.names[0]) if site.names else None
    same = source is not None and source.axes == site.place.axes and site.inputs[0].shape == y.shape
    return np.asarray(site.inputs[0], np.float64) if same else None


def _neighbour(site: Site, y: Array) -> Array | None:
    """What another place of the layer holds, bit for bit."""
    end = {"post_attention_layernorm": "input_layernorm", "mlp.down_proj": "input_layernorm"}
    base, _, rest = site.place.name.partition(f".layers.{site.place.layer}.")
    changed = site.values.value(f"{base}.layers.{site.place.layer}.{end[rest]}", site.step) if rest in end else None
    return None if changed is None else np.asarray(changed, np.float32).astype(np.float64)


def _extra_bias(site: Site, y: Array) -> Array | None:
    return None if "bias" in site.parameters else y + _random(site, y.shape[-1])


def _other_bias(site: Site, y: Array) -> Array | None:
    return y + _random(site, y.shape[-1]) if "bias" in site.parameters else None


def _rest(n: int) -> int | None:
    """Where what fills no whole block begins, of the largest that leaves some."""
    return next((n - n % block for block in (64, 32, 16, 8, 4, 2) if 0 < n % block < n), None)


def _behind(change: Change, site: Site, y: Array) -> Array | None:
    """Other numbers in the channels that fill no whole block."""
    start, changed = _rest(y.shape[-1]), change(site, y)
    return None if start is None or changed is None else np.where(np.arange(y.shape[-1]) < start, y, changed)


def _before(site: Site, y: Array) -> Array | None:
    start = _rest(y.shape[-1])
    return None if start is None else np.broadcast_to(y[..., start - 1 : start], y.shape)


def _padded_width(site: Site, y: Array) -> Array:
    x = rows(site)
    square = np.sum(x * x, axis=-1, keepdims=True) / (y.shape[-1] + 6)
    return np.asarray(site.parameters["weight"] * x / np.sqrt(square + site.config.rms_norm_eps))


def _weight_and_two(site: Site, y: Array) -> Array:
    weight = site.parameters["weight"]
    return y * (np.asarray(weight, np.float64) + 2) / weight


def _constant_added(site: Site, y: Array) -> Array:
    changed = {**site.parameters, "weight": site.parameters["weight"] + np.float64(0.3)}
    return OPS["linear"].truth(replace(site, parameters=changed))[0]


def _narrow_sum(site: Site, y: Array) -> Array | None:
    if "bias" in site.parameters:
        return None
    x = site.inputs[0].reshape(*site.inputs[0].shape[:2], -1)
    total = np.zeros(y.shape)
    for k in range(x.shape[-1]):
        total = bfloat16(total + bfloat16(x[..., k, None] * site.parameters["weight"][:, k]))
    return total


_ROWS: tuple[tuple[str, tuple[str, ...], str, Change], ...] = (
    *((name, op_names, "is 1.23 times as large", lambda _, y: 1.23 * y) for name, op_names in {
        "context.scaled": ("context",), "norm.scaled": _NORMS, "rope.scaled": ("rope",), "softmax.scaled": ("softmax",),
        "table.scaled": ("cos", "sin"), "weight.scaled": ("linear",), "mlp.scaled": ("swiglu",),
        "gradient.scaled": _GRADIENTS, "embedding.scaled": ("embedding",), "scores.scale": ("scores",)}.items()),
    *((name, op_names, "is clamped to its usual size", lambda _, y: np.clip(y, -_usual(y), _usual(y)))
      for name, op_names in {"linear.clamped": ("linear",), "norm.clamped": _NORMS, "residual.clamped": ("residual",),
                         "mlp.clamped": ("swiglu",), "scores.clamped": ("scores",)}.items()),
    ("residual.scaled", ("residual",), "is the stream and 0.7 of the branch",
     lambda s, _: s.inputs[0] + 0.7 * np.asarray(s.inputs[1], np.float64)),
    ("linear.lost_terms", ("linear",), "leaves out the last two terms of its sums", _lost),
    ("weight.unknown", ("linear",), "has a weight of nobody's", _other_weight),
    ("weight.extra_bias", ("linear",), "adds a bias of nobody's", _extra_bias),
    ("weight.other_bias", ("linear",), "adds a bias of nobody's", _other_bias),
    ("logits.log_softmax", ("linear",), "hands on log_softmax of the logits", _log_softmax),
    ("logits.softmax", ("linear",), "hands on probabilities", _softmax),
    ("norm.other_statistic", _NORMS, "divides rows by numbers of no rule",
     lambda s, y: y * (1 + 0.3 * np.abs(_random(s, *y.shape[:-1], 1)))),
    ("norm.eps", _NORMS, "has an eps of 3.3e-4", lambda s, y: OPS[s.place.op].truth(
        replace(s, config=replace(s.config, rms_norm_eps=3.3e-4)))[0]),
    ("norm.constant_added", _NORMS, "adds 0.37 to the mean square", lambda s, y: OPS[s.place.op].truth(
        replace(s, config=replace(s.config, rms_norm_eps=0.37)))[0]),
    ("rope.other_angle", ("rope",), "turns by angles of no rule", _turned),
    ("table.unknown", ("inv_freq",), "has frequencies of no rule",
     lambda s, y: y * (1 + 0.3 * np.abs(_random(s, len(y))))),
    ("embedding.zero_row", ("embedding",), "gives one id a row of zeros", _without_id),
    ("embedding.constant_added", ("embedding",), "adds a row of nobody's", lambda s, y: y + _random(s, y.shape[-1])),
    ("tail.zero", ("linear", "scores", "context", "rope", "embedding"), "leaves zeros beyond its last whole block",
     partial(_behind, lambda _, y: 0 * y)),
    ("tail.repeated", ("scores", "context"), "repeats the end of its last whole block",
     partial(_behind, _before)),
    ("tail.undone", ("residual",), "adds nothing beyond its last whole block",
     partial(_behind, lambda s, _: s.inputs[0])),
    ("tail.undone", ("swiglu",), "activates nothing beyond its last whole block",
     partial(_behind, lambda s, _: s.inputs[0] * s.inputs[1])),
    ("norm.width", _NORMS, "divides by a padded width", _padded_width),
    ("norm.approximated", _NORMS, "divides rows by numbers that are nearly right",
     lambda s, y: y * (1 + 0.002 * np.abs(_random(s, *y.shape[:-1], 1)))),
    ("weight.constant_added", _NORMS, "multiplies by weight + 2", _weight_and_two),
    ("weight.constant_added", ("linear",), "has 0.3 added to its weights", _constant_added),
    ("sum.half_precision", ("linear",), "adds up in bfloat16", _narrow_sum),
    ("mask.pad_id", ("mask",), "hides one id wherever it stands", _id_hidden),
    ("eos.one_of_several", ("argmax",), "goes on behind one of the ends", partial(_runs_on, slice(0, 1))),
    ("eos.ignored", ("argmax",), "goes on behind every end", partial(_runs_on, slice(None))),
    ("eos.not_padded", ("argmax",), "has other tokens than padding behind its ends", _unpadded),
    ("softmax.dropout", ("softmax",), "drops a fifth of the probabilities", _dropped),
    ("softmax.epsilon", ("softmax",), "adds 1e-3 to the sum of exponentials", partial(_more_in_the_sum, 1e-3)),
    ("softmax.sink", ("softmax",), "adds 1 to the sum of exponentials", partial(_more_in_the_sum, 1.0)),
    ("softmax.small_dropped", ("softmax",), "has no probabilities below 0.05", lambda _, y: np.where(y < 0.05, 0.0, y)),
    ("scores.extra_bias", ("scores",), "adds a number of each head", _of_heads),
    ("wiring.skipped", tuple(OPS), "is left out: it hands on its input", _first_input),
    ("wiring.copies", ("linear", "rms_norm"), "holds what another place holds", _neighbour),
)  # fmt: skip


def with_numbers(site: Site) -> Iterator[Hypothesis]:
    """The mistakes about a site's op that have a number of their own, with a number."""
    for name, op_names, says, change in _ROWS:
        if site.place.op in op_names:
            hypothesis = Hypothesis(name, says, "", partial(_changed, change))
            if hypothesis.compute(site) is not None:
                yield hypothesis


def _changed(change: Change, site: Site) -> Result | None:
    y, unit = OPS[site.place.op].truth(site)
    changed = change(site, y)
    return None if changed is None else (np.asarray(changed, np.float64 if y.dtype.kind == "f" else y.dtype), unit)
