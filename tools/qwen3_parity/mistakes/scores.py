"""Wrong attention scores: scaling, which KV head is read, a soft cap, a bias, an exchange of axes, narrow numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.bias_tables import GROUPINGS, Labels, fitted, spread_out
from qwen3_parity.mistakes.factors import named, scalings
from qwen3_parity.mistakes.fused_attention import operands
from qwen3_parity.mistakes.generic import Counts, casts, clamped, miscounted, softly_capped
from qwen3_parity.mistakes.gradients import cut
from qwen3_parity.mistakes.grouped_heads import groups
from qwen3_parity.mistakes.head_maps import HeadMap, fitted_map, wrong_maps
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.merged_orders import ORDERS, Order
from qwen3_parity.mistakes.narrow_sums import narrow_sums
from qwen3_parity.mistakes.observed import likely, observe, recorded, visible_cells, wrong_cells
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_parity.mistakes.split_products import three_products
from qwen3_parity.mistakes.strides import ORDER, READS, Read
from qwen3_parity.mistakes.yarn import FACTOR, fix_factor
from qwen3_spec import ops
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_SCALE = "multiply q·k by head_dim ** -0.5, once"
_HEADS = "query head h reads KV head h // (heads // kv_heads): repeat each KV head, do not tile them"


def _inputs(site: Site) -> tuple[Array, Array, int]:
    """q, all keys, and how many keys are the stack's own."""
    return site.inputs[0], np.concatenate(site.inputs[1:], axis=2), site.inputs[1].shape[2]


def _scored(q: Array, keys: Array, scaling: float) -> Result:
    return ops.scores.forward(q, keys, scaling), ops.scores.unit(q, keys, scaling)


def scaled(site: Site) -> Iterator[Hypothesis]:
    """Other factors on q·k: those that a configuration suggests, and the one that the numbers tell."""

    def times(scaling: Callable[[Site], float]) -> Callable[[Site], Result]:
        return lambda site: _scored(*_inputs(site)[:2], scaling(site))

    if (factor := site.config.attention_factor) != 1:
        fix = fix_factor(site.config)
        for power, words in ((2, "the square of the attention factor"), (1, "the attention factor")):
            for sign, verb in ((power, "multiplied"), (-power, "divided")):
                scaling = site.scaling * factor**sign
                says = f"is {verb} by {words}, which belongs on cos and sin"
                yield Hypothesis(FACTOR, says, fix, times(lambda _, number=scaling: number), PLAIN + abs(power) % 2)  # type: ignore[misc]
    for number_of, (text, number) in enumerate(scalings(site.config)):
        says = f"multiplies by {text}"
        yield Hypothesis("scores.scale", says, _SCALE, times(lambda _, number=number: number), PLAIN + (number_of > 20))  # type: ignore[misc]
    actual, cells = recorded(site), wrong_cells(site)
    if actual is None or cells is None or not cells.any():
        return
    q, keys, _ = _inputs(site)
    truth = ops.scores.forward(q, keys, site.scaling)[cells]
    ratio = float(np.vdot(truth, actual[cells]) / max(float(np.vdot(truth, truth)), 1e-300))
    if np.isfinite(ratio) and abs(ratio) > 1e-6:
        words = named(ratio, site.config)
        says = f"multiplies by {words or f'{ratio:.7g}'} × head_dim ** -0.5"
        yield Hypothesis("scores.scale", says, _SCALE, times(lambda site: ratio * site.scaling), PLAIN + 1)


def head_map(site: Site) -> Iterator[Hypothesis]:
    """Other KV heads, for all keys and for one half of them; then the map that the numbers tell."""
    heads, kv_heads = site.inputs[0].shape[1], site.inputs[1].shape[1]
    parts = [("", "all"), (" among its own keys", "own"), (" among the encoder's keys", "memory")]
    for where, part in parts[: 1 if len(site.inputs) < 3 else 3]:
        for name, says, build in wrong_maps(heads, kv_heads):
            rank = PLAIN + (part != "all")
            yield Hypothesis(
                f"scores.{name}", says + where, _HEADS, _mapped(build, part), rank, cause=f"repeat_kv {says}{where}"
            )
    actual, cells = recorded(site), visible_cells(site)
    if actual is None or cells is None or kv_heads < 2:
        return
    q, keys, _ = _inputs(site)

    def misfit(h: int, kv: int) -> float:
        y = ops.scores.forward(q[:, h : h + 1], keys[:, kv : kv + 1], site.scaling)
        return float(np.abs(y - actual[:, h : h + 1])[cells[:, :1]].sum())

    fitted = fitted_map(heads, kv_heads, misfit)
    if fitted is not None:
        says = f"reads KV heads {', '.join(map(str, fitted))} for query heads 0 to {heads - 1}"
        yield Hypothesis("scores.kv_heads", says, _HEADS, _mapped(lambda h, kv: fitted, "all"), RARE)


def _mapped(build: HeadMap, part: str) -> Callable[[Site], Result | None]:
    def compute(site: Site) -> Result | None:
        q, keys, own_length = _inputs(site)
        kv_map = build(q.shape[1], keys.shape[1])
        if kv_map is None:
            return None
        expected = np.repeat(keys, q.shape[1] // keys.shape[1], axis=1)
        wrong = keys[:, kv_map]
        if part == "own":
            wrong = np.concatenate([wrong[:, :, :own_length], expected[:, :, own_length:]], axis=2)
        elif part == "memory":
            wrong = np.concatenate([expected[:, :, :own_length], wrong[:, :, own_length:]], axis=2)
        return _scored(q, wrong, site.scaling)

    return compute


def capped(site: Site) -> Iterator[Hypothesis]:
    """A soft cap or a hard one; the caps that models have, and the one that the numbers tell."""
    fix, observed = "Qwen3 has no cap on its scores", observe(site)
    yield from softly_capped(site, observed, "scores.softcap", fix, _CAPS, PLAIN)
    yield from clamped(site, observed, "scores.clamped", fix, _CAPS, PLAIN + 1)


def narrow(site: Site) -> Iterator[Hypothesis]:
    """Operands, products or results in narrower types."""
    fix = "compute scores in the inputs' precision"
    yield from casts(site, observe(site), "scores.half_precision", fix, operands=2)
    yield from three_products(site, observe(site), "scores.half_precision")
    yield from operands(site)


def miscounted_channels(site: Site) -> Iterator[Hypothesis]:
    """Channels of queries and keys left out of the sums, or counted twice."""

    def counted(counts: Counts, site: Site) -> Result:
        q, keys, _ = _inputs(site)
        return _scored(q * counts(q.shape[-1]), keys, site.scaling)

    return miscounted(site, observe(site), "scores.lost_terms", site.config.head_dim, counted)


def strides(site: Site) -> Iterator[Hypothesis]:
    """Keys read in another order than they have in memory."""
    for name, says, read, rank in READS:

        def compute(site: Site, read: Read = read) -> Result | None:
            q, keys, _ = _inputs(site)
            reordered = read(keys, q.shape[1])
            return None if reordered is None else _scored(q, reordered, site.scaling)

        hypothesis = Hypothesis(f"scores.{name}", f"reads keys {says}", ORDER, compute, rank, cause=f"{name} {says}")
        yield from likely(site, observe(site), [hypothesis])


def summed(site: Site) -> Iterator[Hypothesis]:
    """Sums in a narrower type."""
    return narrow_sums(site, observe(site))


def other_order(site: Site) -> Iterator[Hypothesis]:
    """Axes exchanged, the encoder's keys first, query heads in another order."""

    def transposed(site: Site) -> Result | None:
        y, unit = OPS["scores"].truth(site)
        return (
            (np.swapaxes(y, 2, 3), np.swapaxes(unit, 2, 3)) if y.shape[2] == y.shape[3] and unit is not None else None
        )

    yield Hypothesis("scores.transposed", "has queries and keys exchanged", "q @ k.transpose(-1, -2)", transposed)

    fix = "concatenate the decoder's own keys first, the encoder's second"
    for name, where, order in ORDERS:

        def joined(site: Site, order: Order = order) -> Result | None:
            if len(site.inputs) < 3:
                return None
            q, keys, memory = site.inputs
            return _scored(q, order(keys, memory, site.length), site.scaling)

        says = f"has the encoder's keys {where}"
        yield Hypothesis(f"scores.{name}", says, fix, joined, cause=f"the encoder's half {where}")

    def rolled(by: int) -> Callable[[Site], Result]:
        return lambda site: _scored(np.roll(site.inputs[0], by, 1), _inputs(site)[1], site.scaling)

    for by, says in ((1, "reads the query head before"), (-1, "reads the next query head")):
        yield Hypothesis("scores.query_heads", says, "head h of the scores is of query head h", rolled(by), PLAIN + 1)


_CAPS = (50.0, 30.0, 20.0, 15.0, 10.0, 25.0, 100.0, 5.0, 8.0, 1.0)


def biased(site: Site) -> Iterator[Hypothesis]:
    """Something is added: a number for each head, key or distance, told by each site's own numbers (ALiBi is one)."""
    for steps, (words, labels) in enumerate(GROUPINGS):

        def compute(site: Site, labels: Labels = labels) -> Result | None:
            actual, cells = recorded(site), visible_cells(site)
            y, unit = OPS["scores"].truth(site)
            if actual is None or cells is None or actual.shape != y.shape or unit is None or not cells.any():
                return None
            table = fitted(np.where(cells, actual - y, 0.0), labels(site, y.shape), cells)
            if table is None:
                return None
            bias = spread_out(labels(site, y.shape), table)
            return y + bias, ops.residual.unit(y, bias) + unit

        fix = "Qwen3 adds nothing to its scores: positions are in RoPE"
        yield Hypothesis("scores.extra_bias", f"adds {words}", fix, compute, RARE + 1 + steps)


MISTAKES: Mapping[str, Mistakes] = {
    "scores": Mistakes((scaled, head_map, other_order, capped, narrow, miscounted_channels, summed, strides, biased)),
    "scores_gradient": Mistakes((groups, cut)),
}
