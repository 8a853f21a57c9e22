"""The implementation as it stands in this process, recorded on the cases and judged until one of them objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity.check import check_run
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.record import record
from qwen3_parity.recording.suite import goldens

_SOONEST = ("encdec/ragged", "decoder/window_chunks", "encoder/window_odd", "encdec/window", "encdec/qwen2")
"""Cases that between them see most: asked first, because one objection is enough."""


@dataclass(frozen=True)
class Judgement:
    """What became of a mutant.

    `outcome`: "caught" by the verdict of `case`, "refused" (an exception, whose text is `detail`), "timeout",
    "survived" all cases (`identical`: with no bit changed anywhere), "unreached" (no case runs the line), or "harness"
    when it was the judge that raised. `accused` are tap patterns, `named` the names of what explains each fault; where
    blaming a caught mutant raised, `detail` says what. `worst` is the largest share of a budget that a survivor used.
    """

    outcome: str
    case: str = ""
    detail: str = ""
    identical: bool = False
    worst: float = 0.0
    accused: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)


def cases() -> list[str]:
    """The cases that our model can be judged on: quick objections first, then networks, then ops."""
    root = GOLDEN_ROOT / "cases"
    order = {name: place for place, name in enumerate(_SOONEST)}
    names = [str(path.relative_to(root).with_suffix("")) for path in goldens()]
    ranked = sorted(names, key=lambda name: (order.get(name, len(order)), name.startswith("op/"), name))
    return [name for name in ranked if not name.startswith("model/")]  # those are Hugging Face's


def recorded(names: Sequence[str], out: Path) -> Iterator[tuple[Recording, Recording]]:
    """The goldens of some cases, each with the recording that the implementation makes of it, written to `out`."""
    from qwen3_parity.recording.ours.network import factory, golden_dtype

    for name in names:
        golden = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
        record(golden, out / f"{name}.pb", factory("eager", golden_dtype(golden)), digests=False)
        yield golden, read(out / f"{name}.pb")


def judge(names: Sequence[str], out: Path, unchanged: Path) -> Judgement:
    """The judgement on this process's implementation.

    `unchanged` are the recordings of the one without a change, which pass: a recording with their bits does too.
    """
    identical, worst = True, 0.0
    runs = recorded(names, out)
    while True:
        try:
            golden, candidate = next(runs)
        except StopIteration:
            return Judgement("survived", identical=identical, worst=worst)
        except Exception as error:
            return Judgement("refused", detail=_said(error))
        name = golden.case.name
        if _same_bits(candidate, read(unchanged / f"{name}.pb")):
            continue
        identical = False
        try:
            verdicts = check_run(golden, candidate)
        except Exception as error:
            return Judgement("harness", name, _said(error))
        if verdicts.exit_code:
            return _caught(golden, candidate)
        worst = max(worst, verdicts.worst.share if verdicts.worst else 0.0)


def _caught(golden: Recording, candidate: Recording) -> Judgement:
    try:
        accused, named = accuse(golden, candidate)
    except Exception as error:
        return Judgement("caught", golden.case.name, _said(error))
    return Judgement("caught", golden.case.name, accused=accused, named=named)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def accuse(golden: Recording, candidate: Recording) -> tuple[list[str], list[str]]:
    """The places that the diagnosis blames, and the first explanation's name of each fault, "" without one."""
    from qwen3_parity.diagnosis import diagnose

    if golden.case.mode == pb.OP:
        return [golden.case.op], []
    diagnosis = diagnose(golden, candidate, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    places = [place for fault in diagnosis.faults for place in fault.places]
    places += [place for fault in diagnosis.misplaced for place in fault.places]
    return [*dict.fromkeys(places), *(finding.name for finding in diagnosis.parameters)], [
        finding.name for finding in diagnosis.faults
    ]


def _same_bits(left: Recording, right: Recording) -> bool:
    if left.run != right.run or list(left.parameters) != list(right.parameters):
        return False
    bits = {tensor.key: tensor.array.tobytes() for tensor in right}
    return {tensor.key: tensor.array.tobytes() for tensor in left} == bits
