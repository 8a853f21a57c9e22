"""What stands beside a verdict: what the ops alone say, by which contract was judged, what was not."""

from __future__ import annotations

from collections.abc import Sequence

from qwen3_parity.folder.levels import level_of
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.report.predictions import summary

_MOST = 12
_FEW = 3


def alone(verdicts: Verdicts) -> list[str]:
    """What the ops alone say in one line; none when no op was judged alone."""
    if not any(tap.judged_alone for tap in verdicts.taps):
        return []
    names = verdicts.wrong_alone
    if not names:
        return ["every op that could be judged alone is right on its own inputs"]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return [f"wrong on their own inputs: {', '.join(names[:_MOST])}{more}"]


def remarks(verdicts: Verdicts) -> list[str]:
    """What a lossy candidate predicts, by which contract was judged, and what keeps a verdict from saying more."""
    lines = list(verdicts.notes)
    if verdicts.predictions is not None:
        lines += summary(verdicts.predictions)
    if verdicts.contract is not None:
        lines.append(f"judged by {verdicts.contract}")
    if verdicts.word == "partial" and (level := level_of(verdicts.case.name)):
        lines.append(f"level {level} needs of this case, too: {', '.join(verdicts.lacks)}")
    if verdicts.unreached:
        more = "" if verdicts.partial else ": --partial judges what is there"
        lines.append(f"nothing was delivered of {', '.join(verdicts.unreached)}{more}")
    if verdicts.no_results:
        missing, few = verdicts.no_results, ", ".join(verdicts.no_results[:_FEW])
        more = f" and {len(missing) - _FEW} more" if len(missing) > _FEW else ""
        lines.append(f"results of the case that were not compared, so the verdict is partial: {few}{more}")
    if verdicts.judged == "run only" and verdicts.case.checkpoint:
        lines.append("run only: each op by itself is judged where the checkpoint is given, with --model")
    return lines


def less_than_both(results: Sequence[Verdicts]) -> str:
    """How many cases were judged by less than their run and their ops, or whose results nobody asked for."""
    counts = {
        "run only": sum(one.judged == "run only" for one in results),
        "ops only": sum(one.judged == "ops only" for one in results),
        "partial": sum(one.word == "partial" for one in results),
    }
    some = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f" ({some})" if some else ""
