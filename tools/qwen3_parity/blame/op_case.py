"""A case of one op as a network of one layer: its tensors under the names of taps, so that blame and mistakes apply.

The inputs are the golden's (`check` holds the candidate's against them bit for bit), the outputs the candidate's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from qwen3_golden import Array, Recording, Tensor, pattern_of, pb, place, tensor
from qwen3_golden.op_table import OP_TABLE
from qwen3_parity.blame.op_plan import Plan, laid_out, plan_of
from qwen3_reference.checkpoints.spec_configs import spec_config

_OUTPUT = "output."


@dataclass(frozen=True)
class OpNetwork:
    """`recording` has the taps, `weights` the parameters; `outputs` are the taps' names that the op makes.

    `names` gives a tap's or parameter's name its tensor's name in the case.
    """

    recording: Recording
    weights: Mapping[str, Array]
    outputs: frozenset[str]
    names: Mapping[str, str]

    def named(self, text: str) -> str:
        """A text about taps as one about the tensors of the case."""
        if text in self.names:
            return self.names[text]
        for tap in sorted(self.names, key=len, reverse=True):
            if "." in tap:  # "logits" is a word, too
                for spelling in (tap, pattern_of(tap), pattern_of(tap).replace("{layer}", "*")):
                    text = text.replace(spelling, self.names[tap])
        return text


def network_of(golden: Recording, candidate: Recording) -> OpNetwork | None:
    """The candidate's outputs on the golden's inputs; None for an op that no tap is made by.

    Outputs with another shape or kind of number than the golden's are left out: `check` says so.
    """
    arrays = {item.info.name: item.values() for item in golden}
    plan = _plan(golden.case, arrays)
    if plan is None:
        return None
    step = int(plan.past > 0)
    tensors, outputs, names = list[Tensor](), set[str](), dict[str, str]()
    for item in golden:
        tap = plan.taps.get(item.info.name)
        recorded = candidate.get(*item.key) if item.info.name.startswith(_OUTPUT) else item
        if tap is None or recorded is None or not _comparable(recorded, item):
            continue
        axes = OP_TABLE[golden.case.op].tensors[item.info.name].axes
        tensors.append(_tap(tap, _step_of(tap, step), recorded, axes))
        names[tap] = item.info.name
        if item.info.name.startswith(_OUTPUT):
            outputs.add(tap)
    tensors += [tensor(tap, array, step=_step_of(tap, step)) for tap, array in plan.implied.items()]
    case = pb.Case(
        name=golden.case.name,
        mode=plan.mode,
        config=plan.config,
        steps=[plan.past, plan.query] if plan.past else [plan.query],
        generation=plan.generation,
    )
    weights = {tap: arrays[name] for name, tap in plan.weights.items() if name in arrays}
    recording = replace(candidate, case=case, tensors=tensors, parameters=())
    return OpNetwork(recording, weights, frozenset(outputs), names | {tap: name for name, tap in plan.weights.items()})


def _plan(case: pb.Case, arrays: Mapping[str, Array]) -> Plan | None:
    """Where the tensors stand; None for what does not hold to the convention of op cases (somebody's own golden)."""
    numbers = {attribute.key: attribute.value for attribute in case.attributes}
    try:
        plan = plan_of(case.op, arrays, numbers)
        if plan is not None:
            spec_config(plan.config)
    except (ArithmeticError, KeyError, ValueError):
        return None
    return plan


def _step_of(tap: str, step: int) -> int:
    return 0 if tap.startswith("input.") else step


def _comparable(actual: Tensor, expected: Tensor) -> bool:
    same_kind = actual.is_float == expected.is_float and (actual.info.dtype == pb.BOOL) == (
        expected.info.dtype == pb.BOOL
    )
    return same_kind and actual.array.shape == expected.array.shape


def _tap(name: str, step: int, item: Tensor, axes: Sequence[str]) -> Tensor:
    tap_place = place(name, 1)
    assert tap_place is not None, name
    array = laid_out(item.array, axes, tap_place.axes)
    info = pb.Tensor(
        name=name, step=step, dtype=item.info.dtype, shape=array.shape, axes=tap_place.axes, op=tap_place.op
    )
    return Tensor(info, array)
