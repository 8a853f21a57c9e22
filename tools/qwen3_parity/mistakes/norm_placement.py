"""LayerNorm at the other place: what pre-norm and post-norm blocks read when one is taken for the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Array, pattern_of
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_NAME = "norm.placement"
_FIX = {
    "pre_norm": "x + branch(norm(x)): each branch reads its norm, sums read the stream, a last norm ends the stack",
    "post_norm": "norm(x + branch(x)): branches and sums read the normed stream, each sum is normed",
}
_READS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "pre_norm.layers.{layer}.norm1": ((0, "attn_residual", "norms the sum behind attention: post-norm"),),
    "pre_norm.layers.{layer}.self_attn.qkv_proj": ((0, "input", "reads the stream and not its norm"),),
    "pre_norm.layers.{layer}.attn_residual": ((0, "norm1", "adds the branch to the normed stream"),),
    "pre_norm.layers.{layer}.norm2": ((0, "norm1+feed_forward.linear2", "norms the block's last sum: post-norm"),),
    "pre_norm.layers.{layer}.feed_forward.linear1": (
        (0, "attn_residual", "reads the stream and not its norm"),
        (0, "norm1", "reads the first norm: post-norm"),
    ),
    "pre_norm.layers.{layer}.output": ((0, "norm2", "adds the branch to the normed stream"),),
    "post_norm.layers.{layer}.norm1": ((0, "input", "norms the layer's input: pre-norm"),),
    "post_norm.layers.{layer}.self_attn.qkv_proj": ((0, "norm1", "reads a norm of the stream: pre-norm"),),
    "post_norm.layers.{layer}.attn_residual": ((0, "norm1", "adds the branch to the normed stream"),),
    "post_norm.layers.{layer}.norm2": ((0, "attn_residual", "norms the sum behind attention: pre-norm"),),
    "post_norm.layers.{layer}.feed_forward.linear1": (
        (0, "attn_residual", "reads the sum and not its norm"),
        (0, "norm2", "reads the second norm: pre-norm"),
    ),
    "post_norm.layers.{layer}.ff_residual": ((0, "attn_residual", "adds the branch to the sum that was not normed"),),
}
"""Of each place, the slot that reads another tap of its layer ("a+b": the sum of two), and what that says."""
_COPIES = {
    "pre_norm.layers.{layer}.output": ("norm2", "is normed: post-norm"),
    "post_norm.layers.{layer}.output": ("ff_residual", "is the sum without its norm"),
}
"""Of each place, the tap of its layer that it is in the other form."""
_SUMS = {
    "post_norm.layers.{layer}.ff_residual": ("input", "self_attn.out_proj", "is the sum behind attention: pre-norm"),
    "post_norm.layers.{layer}.output": ("ff_residual", "feed_forward.linear2", "is a sum that nothing norms: pre-norm"),
}
"""Of each place, the two taps of its layer whose sum it is in the other form."""


def placement(site: Site) -> Iterator[Hypothesis]:
    """Post-norm where the network is pre-norm, and the other way around, in one place or in all."""
    pattern = site.place.pattern
    network = site.place.name.partition(".")[0]
    if network not in _FIX:
        return
    guesses = [
        Hypothesis(_NAME, says, _FIX[network], partial(_reading, slot, names))
        for slot, names, says in _READS.get(pattern, ())
    ]
    if pattern in _COPIES:
        name, says = _COPIES[pattern]
        guesses.append(Hypothesis(_NAME, says, _FIX[network], partial(_copied, name)))
    if pattern in _SUMS:
        first, second, says = _SUMS[pattern]
        guesses.append(Hypothesis(_NAME, says, _FIX[network], partial(_summed, first, second)))
    if pattern == "post_norm.last_hidden_state":
        guesses += [
            Hypothesis("norm.extra", f"is normed once more, by {name} of the last layer", _FIX[network], compute)
            for name, compute in (("norm1", partial(_normed, "norm1")), ("norm2", partial(_normed, "norm2")))
        ]
        guesses.append(Hypothesis("norm.extra", "is normed once more, without weights", _FIX[network], _plainly))
    yield from likely(site, observe(site), guesses)


def _layer(site: Site) -> str:
    """The prefix of the site's layer."""
    return pattern_of(site.place.name).partition("{layer}")[0] + str(site.place.layer)


def _tap(site: Site, names: str) -> Array | None:
    taps = [site.values.value(f"{_layer(site)}.{name}", site.step) for name in names.split("+")]
    known = [tap for tap in taps if tap is not None]
    return None if len(known) < len(taps) else sum(known[1:], start=known[0])


def _reading(slot: int, names: str, site: Site) -> Result | None:
    value = _tap(site, names)
    if value is None or value.shape != site.inputs[slot].shape:
        return None
    inputs = (*site.inputs[:slot], value, *site.inputs[slot + 1 :])
    return OPS[site.place.op].truth(replace(site, inputs=inputs))


def _copied(name: str, site: Site) -> Result | None:
    value = _tap(site, name)
    return None if value is None else (value, None)


def _summed(first: str, second: str, site: Site) -> Result | None:
    parts = [_tap(site, name) for name in (first, second)]
    if parts[0] is None or parts[1] is None:
        return None
    return OPS["residual"].truth(replace(site, inputs=(parts[0], parts[1])))


def _again(site: Site, weight: Array, bias: Array) -> Result:
    return OPS["layer_norm"].truth(replace(site, parameters={"weight": weight, "bias": bias}))


def _normed(name: str, site: Site) -> Result | None:
    base = f"post_norm.layers.{site.config.num_hidden_layers - 1}.{name}"
    parameters = [site.checkpoint.get(f"{base}.{part}") for part in ("weight", "bias")]
    return None if parameters[0] is None or parameters[1] is None else _again(site, parameters[0], parameters[1])


def _plainly(site: Site) -> Result:
    ones = np.ones(site.inputs[0].shape[-1])
    return _again(site, ones, 0 * ones)
