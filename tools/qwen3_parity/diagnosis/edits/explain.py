"""The edits that explain a fault of a network with a graph, as a diagnosis says them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qwen3_parity.diagnosis.edits.edit import Edit
from qwen3_parity.diagnosis.edits.search import ENOUGH, Fitting, search
from qwen3_parity.diagnosis.edits.target import Target, target
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.slices.network import Network
from qwen3_parity.slices.source import place_of, text_of

_SHOWN = 3
"""Edits that fit equally well and are all said."""


@dataclass(frozen=True)
class ByEdits:
    """What explains a fault: `explanations` best first, the `edits` behind them, the taps `tried`, the `work` of it.

    `stopped`: not all were tried.
    """

    explanations: Sequence[Explanation]
    edits: Sequence[Edit]
    tried: tuple[tuple[str, int], ...] = ()
    work: int = 0
    stopped: bool = False


def explain(
    fault: Fault,
    network: Network,
    known: Sequence[Edit] = (),
    until: int = ENOUGH,
    late: Callable[[], bool] = lambda: False,
) -> ByEdits:
    """The edits that give the candidate's numbers at a fault's taps; `known` ones explain other faults.

    No more are looked for after `until`, in counted work, or where it is `late`.
    """
    searched = search(_targets(fault.wrong, network), _targets(fault.right, network), known, until, late)
    best = searched.fitting[0] if searched.fitting else None
    alike = [fitting for fitting in searched.fitting if best is not None and fitting.as_good_as(best)][:_SHOWN]
    said = [_said(fitting, fault, network) for fitting in alike]
    return ByEdits(said, [fitting.edit for fitting in alike], searched.tried, searched.work, searched.stopped)


def _targets(verdicts: Sequence[OpVerdict], network: Network) -> list[Target]:
    targets = (target(network, verdict.name, verdict.step) for verdict in verdicts if not verdict.reason)
    return [each for each in targets if each is not None]


def _said(fitting: Fitting, fault: Fault, network: Network) -> Explanation:
    edit = fitting.edit
    says, fix = edit.says, "as the checkpoint and the case have it"
    if edit.line is not None:
        says = f"{says}, at {place_of(edit.line)}"
        fix = text_of(edit.line, network.golden) or f"as in {place_of(edit.line)}"
    return Explanation(
        name=edit.name,
        says=says,
        fix=fix,
        place=fault.place,
        share=fitting.share,
        whole=fitting.whole,
        partly=fitting.partly,
        of=fitting.of,
        contradicted=fitting.contradicted,
        spoiled=fitting.spoiled,
        rank=edit.rank,
        taps=fitting.taps,
    )
