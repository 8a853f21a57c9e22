"""Every op of a recording by itself: the specification on the inputs that the recording itself holds, in float64.

An early fault hides no later one, because each op is given what the recording says it was given. Errors are counted in
rounding units (`qwen3_spec.units`), evaluated on the same inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qwen3_golden import Array, Place, Recording, Tensor, pb, place
from qwen3_parity.budgets import ROUNDOFF, headroom
from qwen3_parity.recompute import OPS, Site
from qwen3_parity.scope import Scope


@dataclass(frozen=True, slots=True)
class OpVerdict:
    """One op alone. `rms` and `max` are errors in rounding units, or the number of wrong elements of an exact op.

    `share` is of the op's headroom: above 1 is a fault; infinite for an exact op that is not, another shape, a NaN.
    `reason` says why nothing was judged (an input that was not recorded, or is not finite); empty when it was.
    """

    name: str
    step: int
    op: str
    rms: float = 0.0
    max: float = 0.0
    share: float = 0.0
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Within the op's headroom, or not judged."""
        return self.share <= 1


def replay(recording: Recording, weights: Mapping[str, Array], given: Recording | None = None) -> list[OpVerdict]:
    """Compute every op of a recording again, in its order; `weights` by canonical parameter name, as loaded.

    Inputs are those that the recording holds, or those of `given`, for ops that were run alone on somebody else's.
    Raises `KeyError` for a parameter that an op needs and `weights` does not have.
    """
    source = given or recording
    scope = Scope(source)
    verdicts = []
    for item in recording:
        spot = place(item.info.name, recording.case.config.num_hidden_layers)
        if spot is None or spot.op not in OPS:
            continue
        verdict = OpVerdict(item.info.name, item.info.step, spot.op)
        site, reason = _site(source, weights, spot, item)
        found = replace(verdict, reason=reason) if site is None else _judge(verdict, site, scope)
        verdicts.append(found)
    return verdicts


def _site(recording: Recording, weights: Mapping[str, Array], spot: Place, item: Tensor) -> tuple[Site | None, str]:
    """The tap with its inputs, which `recording` holds, or why it cannot be judged."""
    step, config = item.info.step, recording.case.config
    names = [name for some in spot.inputs for name in some]
    found = {name: recording.get(name, 0 if _made_once(name) else step) for name in names}
    given = spot.inputs_in([name for name, tensor in found.items() if tensor is not None], config)
    needed = len(spot.inputs) - (0 if recording.case.mode == pb.ENCODER_DECODER else len(spot.optional))
    before = {"cache": step - 1, "cache_once": 0}.get(spot.op, step) if step else step
    if len(given) < needed or recording.get(item.info.name, before) is None:
        return None, "an input was not recorded"
    if recording.case.rows and _cut(item, [found[name] for name in given]):
        return None, "some of its rows were not recorded"
    inputs = tuple(tensor.values() for name in given if (tensor := found[name]) is not None)
    if not all(np.isfinite(values).all() for values in inputs):
        return None, "an input is not finite"
    return Site(recording, weights, spot, item, given, inputs), ""


def _made_once(name: str) -> bool:
    """Whether a tap exists at step 0 alone and later steps read it there."""
    return name.startswith("input.") or name.endswith(".inv_freq") or ".encoder_" in name


def _cut(item: Tensor, inputs: Sequence[Tensor | None]) -> bool:
    """Whether an input has other rows than the tap: a case that keeps some rows keeps all of what attention needs."""
    known = [one.info for one in (item, *inputs) if one is not None and "query" in one.info.axes]
    return len({info.shape[list(info.axes).index("query")] for info in known}) > 1


def _judge(verdict: OpVerdict, site: Site, scope: Scope) -> OpVerdict:
    actual = site.tensor.values()
    judged = scope.judged(site.tensor, site.place)
    keep = np.ones(actual.shape, bool) if judged is None else np.broadcast_to(judged, actual.shape)
    truth, unit = OPS[site.place.op](site)
    if truth.shape != actual.shape or not np.isfinite(actual).all():
        return replace(verdict, rms=math.inf, max=math.inf, share=math.inf)
    if not keep.any():
        return replace(verdict, reason="nothing but padding")
    if unit is None:
        wrong = int(np.count_nonzero(actual[keep] != truth[keep]))
        return replace(verdict, rms=wrong, max=wrong, share=math.inf if wrong else 0.0)
    unit = _as_stored(unit, truth, site.place.op, site.tensor.info.dtype)
    errors = np.abs(actual[keep] - truth[keep]) / unit[keep]
    rms, largest = math.sqrt(float(np.mean(errors * errors))), float(errors.max())
    allowed = headroom("op", site.place.op)
    share = max(rms / allowed.rms, largest / allowed.max)
    return replace(verdict, rms=rms, max=largest, share=math.inf if math.isnan(share) else share)


def _as_stored(unit: Array, truth: Array, op: str, dtype: int) -> Array:
    """The unit of a result in half precision: float32 arithmetic, one rounding more when it is stored.

    RoPE rounds its two products before it adds them, and they may cancel: its whole unit is that of the narrow type.
    """
    if dtype not in (pb.BF16, pb.F16):
        return unit
    return unit * (ROUNDOFF[dtype] / ROUNDOFF[pb.F32]) if op == "rope" else unit + ROUNDOFF[dtype] * np.abs(truth)
