"""The judge of single taps: each by the specification, in float64, on the inputs that the recording itself holds.

An early fault hides no later one, because each op is given what the recording says it was given. Errors are counted in
rounding units (`qwen3_spec.ops`), evaluated on the same inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qwen3_golden import Array, ParityError, Place, Recording, Tensor, pb
from qwen3_parity.blame.evidence import Evidence, worst_share
from qwen3_parity.blame.noise import group_noise
from qwen3_parity.blame.rotations import by_nearest_angles
from qwen3_parity.blame.values import Values
from qwen3_parity.judge.budgets import ROUNDOFF
from qwen3_parity.judge.choices import behind_near_ties
from qwen3_parity.judge.op_verdict import Errors, OpVerdict
from qwen3_parity.judge.scope import Scope
from qwen3_parity.judge.tap_verdict import last_rows_of
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

_CLEAR = 0.25
"""A share of the headroom that leaves nothing to ask."""


@dataclass(frozen=True)
class TapJudge:
    """Judges taps of a run alone: `values` is what every op was given, `scope` which elements count."""

    values: Values
    scope: Scope

    @classmethod
    def of(cls, candidate: Recording, weights: Mapping[str, Array], golden: Recording | None = None) -> TapJudge:
        """The judge of a candidate; the case's inputs are the golden's, `weights` by canonical name, as loaded."""
        return cls(Values(candidate, weights, golden), Scope(golden or candidate))

    def another(self, **changes: Any) -> TapJudge:
        """The judge of the same run with fields of its values changed, and nothing computed yet."""
        return replace(self, values=self.values.another(**changes))

    def taps(self) -> Iterator[Tensor]:
        """The recorded taps that an op makes, in their order."""
        for item in self.values.recording:
            place = self.values.place(item.info.name)
            if place is not None and place.op != "input" and (place.op != "argmax" or self.values.computes(place)):
                yield item

    def op(self, item: Tensor) -> str:
        """The op that makes a tap of the network."""
        place = self.values.place(item.info.name)
        assert place is not None, f"harness bug: {item.info.name} is nothing of this network"
        op: str = place.op
        return op

    def evidence(self, item: Tensor) -> Evidence | str:
        """A recorded tap with its site, or why it cannot be judged."""
        values = self.values
        values.computed.clear()
        try:
            site = values.site(*item.key)
        except (ValueError, IndexError):  # what NumPy raises for shapes that do not fit each other
            return "an input has another shape"
        if site is None:
            return "an input was not recorded"
        if (values.case.rows and _cut(values, item, site)) or _last_alone(values, item):
            return "some of its rows were not recorded"
        others = tuple(dict.fromkeys(name for (name, _), value in values.computed.items() if value is not None))
        judged = _judged(self.scope, site, item) & _with_a_key(values, item, site, others)
        if site.place.op == "argmax" and values.golden is not None:
            judged = judged & ~behind_near_ties(item.values(), values.golden, values.recording)
        evidence = Evidence(site, item.values(), judged, _stored(values, item), others, _narrow(values, item))
        return by_nearest_angles(evidence) if site.place.op == "rope" else evidence

    def alone(self, item: Tensor) -> tuple[OpVerdict, tuple[str, ...]]:
        """The verdict on a tap that an op makes, and the taps that it was computed from."""
        verdict, evidence = OpVerdict(item.info.name, item.info.step, self.op(item)), self.evidence(item)
        if isinstance(evidence, str):
            return replace(verdict, reason=evidence), ()
        return judge(verdict, evidence), evidence.site.names


def judge(verdict: OpVerdict, evidence: Evidence, extra: Array | float = 0.0) -> OpVerdict:
    """The verdict on a tap with its evidence; `extra` is noise, in the tap's own unit, beside that of its ops.

    Libraries differ in cos and sin, by much at far positions, so a port may compute its own, which are judged, and turn
    by the golden's: a rotation is right by either.
    """
    judged = _judge(verdict, evidence, extra)
    values = evidence.site.values
    if judged.share < _CLEAR or "rope" not in evidence.ops or values.golden is None:
        return judged
    site = values.another(given_tables=True).site(verdict.name, verdict.step)
    again = judged if site is None else _judge(verdict, replace(evidence, site=site), extra)
    return again if again.share < judged.share and not again.reason else judged


def _judge(verdict: OpVerdict, evidence: Evidence, extra: Array | float) -> OpVerdict:
    verdict = replace(verdict, others=evidence.others)
    try:
        truth, unit = result = expected(evidence, extra)
    except (ValueError, IndexError):
        return replace(verdict, reason="an input has another shape")
    if truth.shape != evidence.actual.shape or evidence.narrow:
        return replace(verdict, errors=_LOST, share=math.inf)
    known = np.isfinite(truth) if truth.dtype.kind == "f" else np.ones(truth.shape, bool)
    if not known.any() and truth.size:
        return replace(verdict, reason="an input is not finite")
    if evidence.actual.dtype.kind == "f" and not np.isfinite(evidence.actual[known]).all():
        return replace(verdict, errors=_LOST, share=math.inf)
    evidence = replace(evidence, judged=evidence.judged & known)
    if not evidence.judged.any():
        return replace(verdict, reason="nothing but padding" if known.all() else "an input is not finite")
    errors = evidence.errors(result)
    assert errors is not None
    figures = evidence.measure(errors)
    return replace(
        verdict, errors=figures, share=worst_share(figures, evidence.ops) if unit is not None else figures.max
    )


_LOST = Errors(math.inf, math.inf, math.inf, math.inf)


def expected(evidence: Evidence, extra: Array | float = 0.0) -> Result:
    """What a tap should be, and the noise that is honest: of its own op, of those judged with it, and `extra`."""
    site = evidence.site
    truth, unit = site.values.compute(site)
    if truth.dtype.kind != "f":
        return truth, unit
    if not evidence.others:
        return truth, unit if unit is None else np.hypot(unit, extra)
    variance = 0 if unit is None else unit * unit  # a copy adds nothing to the noise of what it copies
    return truth, np.sqrt(variance + group_noise(site, truth) + np.square(extra))


def _stored(values: Values, item: Tensor) -> int:
    """The type that a tap's numbers were rounded to: a run in half precision may be saved in wider numbers."""
    golden_tap = None if values.golden is None else values.golden.get(*item.key)
    half = golden_tap is not None and golden_tap.info.dtype == values.dtype != pb.F32 and item.is_float
    return values.dtype if half else item.info.dtype


def _narrow(values: Values, item: Tensor) -> bool:
    golden_tap = None if values.golden is None else values.golden.get(*item.key)
    return golden_tap is not None and ROUNDOFF.get(item.info.dtype, 0) > ROUNDOFF.get(golden_tap.info.dtype, 1)


def _judged(scope: Scope, site: Site, item: Tensor) -> Array:
    own_mask = _own_mask(site, item)
    try:
        judged = scope.judged(item, site.place) if own_mask is None else scope.rows(item, site.place)
    except (ParityError, ValueError, IndexError):  # another shape than the golden's: the candidate's own business here
        judged = None
    cells = np.ones(item.array.shape, bool) if judged is None else np.broadcast_to(judged, item.array.shape)
    return cells if own_mask is None else cells & own_mask


def _with_a_key(values: Values, item: Tensor, site: Site, others: tuple[str, ...]) -> Array:
    """The cells of queries that see a key, by the masks that were recorded: what attention makes of none is free.

    `bool`, with the tap's axes, of size 1 where nothing depends on one.
    """
    shape, axes = item.array.shape, site.place.axes
    cells = np.ones((1,) * len(shape), bool)
    if axes[:1] != ("batch",) or "query" not in axes:
        return cells
    for name in others:
        place = values.place(name)
        mask = place and place.op == "softmax" and values.recorded(f"{name.rpartition('.')[0]}.mask", site.step)
        if isinstance(mask, np.ndarray) and mask.shape[:2] == (shape[0], shape[axes.index("query")]):
            form = [1] * len(shape)
            form[0], form[axes.index("query")] = mask.shape[:2]
            cells = cells & mask.any(axis=-1).reshape(form)
    return cells


def _own_mask(site: Site, item: Tensor) -> Array | None:
    """The cells of scores that the candidate's own mask shows; of probabilities, every cell of a row that sees a key.

    Hidden probabilities must be 0. None for every other tap, and without a mask that fits.
    """
    if not OPS[site.place.op].masked:
        return None
    mask = site.values.value(site.sibling("mask"), site.step)
    if mask is None or item.array.ndim != 4 or mask.shape != (len(item.array), *item.array.shape[2:]):
        return None
    shown = mask if site.place.op == "scores" else mask.any(axis=-1, keepdims=True)
    return np.asarray(shown)[:, None]


def _cut(values: Values, item: Tensor, site: Site) -> bool:
    """Whether an input has other rows than the tap: a case that keeps some rows keeps all of what attention needs."""
    of = site.names[:1] if site.place.op in ("scores", "context") else site.names
    axes = [(place.axes, shape) for place, shape in _shapes(values, of, site)]
    axes.append((site.place.axes, item.array.shape))
    return len({shape[names.index("query")] for names, shape in axes if "query" in names}) > 1


def _last_alone(values: Values, item: Tensor) -> bool:
    """Whether these are logits of the last position alone, made of the norm of every position."""
    golden_tap = None if values.golden is None else values.golden.get(*item.key)
    return golden_tap is not None and last_rows_of(item, golden_tap) > 0


def _shapes(values: Values, names: tuple[str, ...], site: Site) -> Iterator[tuple[Place, tuple[int, ...]]]:
    for name, array in zip(names, site.inputs, strict=False):
        place = values.place(name)
        if place is not None:
            yield place, array.shape
