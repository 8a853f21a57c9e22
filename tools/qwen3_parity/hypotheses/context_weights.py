"""Wrong context: other values, other weights, narrow numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.context import own_keys, weighed
from qwen3_parity.hypotheses.factors import named
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.judged_cells import recorded, wrong_cells
from qwen3_parity.hypotheses.observed import narrowed, unit_of
from qwen3_parity.hypotheses.rounding import ROUNDED
from qwen3_spec import ops
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.ops.context import all_values
from qwen3_spec.site import Result, Site

_VALUES = "values are neither normed nor rotated"
_WEIGHTS = "weigh the values with the probabilities as they are"


def _with_values(change: Callable[[Array, Site, bool], Array | None]) -> Callable[[Site], Result | None]:
    """Own and encoder values `[batch, kv_heads, key, head_dim]` each through `change(values, site, memory)`."""

    def compute(site: Site) -> Result | None:
        parts = [heads_first(v, site.config.head_dim) if v.ndim == 3 else v for v in site.inputs[1:]]
        changed = [change(part, site, index > 0) for index, part in enumerate(parts)]
        if any(one is None for one in changed):
            return None
        return weighed(site, site.inputs[0], np.concatenate([one for one in changed if one is not None], axis=2))

    return compute


def _tables(site: Site, *, memory: bool) -> tuple[Array, Array] | None:
    """cos and sin of every key's position, `[batch, key, head_dim]`."""
    encoder = memory or site.stack == "encoder"
    positions = site.values.recorded(f"input.{'encoder' if encoder else 'decoder'}_position_ids", 0)
    frequencies = site.values.value(f"{site.stack}.inv_freq", 0)
    if positions is None or frequencies is None:
        return None
    return ops.rope_table.forward(
        positions if encoder else positions[:, : site.stop], frequencies, site.config.attention_factor
    )


def _rotated(*, own: bool, theirs: bool) -> Callable[[Array, Site, bool], Array | None]:
    def change(values: Array, site: Site, memory: bool) -> Array | None:
        if not (theirs if memory else own):
            return values
        found = _tables(site, memory=memory)
        if found is None or found[0].shape[1] != values.shape[2]:
            return None
        return ops.rope.forward(values, *found)

    return change


def _normed(which: str) -> Callable[[Array, Site, bool], Array | None]:
    def change(values: Array, site: Site, memory: bool) -> Array | None:
        weight = site.checkpoint.get(f"{site.sibling(which)}.weight")
        return None if weight is None else ops.rms_norm.forward(values, weight, site.config.rms_norm_eps)

    return change


def other_values(site: Site) -> Iterator[Hypothesis]:
    """Values that were rotated or normed, moved along the keys, or exchanged with the encoder's."""
    for own, theirs, says in ((True, True, "rotates the values"), (True, False, "rotates its own values"),
                              (False, True, "rotates the encoder's values")):  # fmt: skip
        if theirs and not own and len(site.inputs) < 3:
            continue
        compute = _with_values(_rotated(own=own, theirs=theirs))
        yield Hypothesis("context.value_rotated", says, _VALUES, compute, int(own != theirs))
    for which in ("k_norm", "q_norm"):
        yield Hypothesis(
            "context.value_normed", f"puts the values through {which}", _VALUES, _with_values(_normed(which))
        )
    for by, says in ((1, "one slot late"), (-1, "one slot early")):

        def moved(site: Site, by: int = by) -> Result:
            return weighed(site, site.inputs[0], np.roll(all_values(site), by, 2))

        yield Hypothesis("context.shifted", f"weighs the values {says}", _VALUES, moved, 1)

    def exchanged(site: Site) -> Result | None:
        if len(site.inputs) < 3:
            return None
        values, own = all_values(site), own_keys(site)
        return weighed(site, site.inputs[0], np.concatenate([values[:, :, own:], values[:, :, :own]], axis=2))

    fix = "concatenate the decoder's own values first, the encoder's second"
    yield Hypothesis("context.halves_exchanged", "has the encoder's values before the decoder's", fix, exchanged)


def _with_probs(change: Callable[[Array, Site], Array | None]) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        found = change(site.inputs[0], site)
        return None if found is None else weighed(site, found, all_values(site))

    return compute


def _half(*, memory: bool, share: bool) -> Callable[[Array, Site], Array | None]:
    def change(probs: Array, site: Site) -> Array | None:
        own = own_keys(site)
        if own >= probs.shape[-1]:
            return None
        found = probs.copy()
        found[..., slice(own, None) if memory else slice(own)] = 0
        total = found.sum(-1, keepdims=True)
        return found / np.where(total > 0, total, 1) if share else found

    return change


def _uniform(probs: Array, site: Site) -> Array | None:
    mask = site.values.value(site.sibling("mask"), site.step)
    if mask is None or mask.shape != (probs.shape[0], *probs.shape[2:]):
        return None
    seen = mask[:, None].astype(float)
    return np.broadcast_to(seen / np.maximum(seen.sum(-1, keepdims=True), 1), probs.shape)


def _unmasked(probs: Array, site: Site) -> Array | None:
    scores = site.values.value(site.sibling("scores"), site.step)
    if scores is None or scores.shape != probs.shape:
        return None
    return ops.softmax.forward(scores, np.ones((probs.shape[0], *probs.shape[2:]), bool))


def _renormalised(probs: Array, site: Site) -> Array:
    total = probs.astype(np.float64).sum(-1, keepdims=True)
    return probs / np.where(total > 0, total, 1)


_WEIGHINGS: tuple[tuple[str, str, Callable[[Array, Site], Array | None], int], ...] = (
    ("half_missing", "leaves the encoder's values out", _half(memory=True, share=False), 0),
    ("half_missing", "leaves its own values out", _half(memory=False, share=False), 0),
    ("half_missing", "weighs its own values alone, to a sum of 1", _half(memory=True, share=True), 1),
    ("half_missing", "weighs the encoder's values alone, to a sum of 1", _half(memory=False, share=True), 1),
    ("other_weights", "divides the probabilities by their sum once more", _renormalised, 1),
    ("other_weights", "weighs all visible values equally", _uniform, 1),
    ("other_weights", "weighs hidden values too: the mask is lost", _unmasked, 1),
    ("other_weights", "weighs the keys in reverse order", lambda p, _: p[..., ::-1], 2),
    ("other_weights", "weighs with the next head's probabilities", lambda p, _: np.roll(p, -1, 1), 1),
    ("other_weights", "weighs with the probabilities of the head before", lambda p, _: np.roll(p, 1, 1), 1),
    ("other_weights", "has queries and keys of the probabilities exchanged",
     lambda p, _: np.swapaxes(p, 2, 3) if p.shape[2] == p.shape[3] else None, 1),
    ("other_weights", "squares the probabilities", lambda p, _: p.astype(np.float64) ** 2, 2),
    ("mean", "divides by the number of keys", lambda p, _: p / p.shape[-1], 1),
)  # fmt: skip


def other_weights(site: Site) -> Iterator[Hypothesis]:
    """Probabilities changed on the way, the result multiplied by a number."""
    for name, says, change, rank in _WEIGHINGS:
        yield Hypothesis(f"context.{name}", says, _WEIGHTS, _with_probs(change), rank)
    actual, cells = recorded(site), wrong_cells(site)
    if actual is None or cells is None or not cells.any():
        return
    y, _ = OPS["context"].truth(site)
    factor = float(np.vdot(y[cells], actual[cells]) / max(float(np.vdot(y[cells], y[cells])), 1e-300))
    if np.isfinite(factor) and abs(factor) > 1e-6:

        def scaled(site: Site) -> Result:
            y, unit = OPS["context"].truth(site)
            assert unit is not None
            return factor * y, abs(factor) * unit

        says = f"is multiplied by {named(factor, site.config) or f'{factor:.7g}'}"
        yield Hypothesis("context.scaled", says, "the context is the weighted sum, and nothing more", scaled, 1)


def narrow(site: Site) -> Iterator[Hypothesis]:
    """Probabilities, values or the result in narrower types."""

    def compute(rounded: Callable[[Array], Array], where: str) -> Callable[[Site], Result]:
        def found(site: Site) -> Result:
            probs, values = site.inputs[0], all_values(site)
            probs = rounded(probs) if where in ("the probabilities", "everything", "both operands") else probs
            values = rounded(values) if where in ("the values", "everything", "both operands") else values
            y, unit = weighed(site, probs, values)
            return narrowed(y, unit_of((y, unit)), rounded) if where in ("the result", "everything") else (y, unit)

        return found

    for what, rounded in ROUNDED:
        for where in ("the probabilities", "the values", "both operands", "the result", "everything"):
            fix = "weigh in the inputs' precision"
            yield Hypothesis("context.half_precision", f"rounds {where} to {what}", fix, compute(rounded, where), 1)
