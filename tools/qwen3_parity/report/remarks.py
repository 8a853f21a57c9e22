"""What stands beside a verdict: the ops alone, what a lossy candidate predicts, the contract, what was not judged."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from qwen3_golden import pb
from qwen3_parity.folder.levels import level_of
from qwen3_parity.judge.predictions import Prediction, Predictions
from qwen3_parity.judge.verdict import Verdicts

RESULTS_ALONE = "no result is wrong, judged by the whole network: nothing inside of it was recorded"
_MOST = 12
_FEW = 3


def alone(verdicts: Verdicts) -> list[str]:
    """What the ops alone say in one line; none when no op was judged alone."""
    if not any(tap.judged_alone for tap in verdicts.taps):
        return []
    names = verdicts.wrong_alone
    if not names and verdicts.results_alone:
        return [RESULTS_ALONE]
    if not names:
        return ["every op that could be judged alone is right on its own inputs"]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return [f"wrong on their own inputs: {', '.join(names[:_MOST])}{more}"]


def remarks(verdicts: Verdicts) -> list[str]:
    """What a lossy candidate predicts, by which contract was judged, and what keeps a verdict from saying more."""
    lines = list(verdicts.notes)
    if verdicts.predictions is not None:
        lines += _predicted(verdicts.predictions)
    elif verdicts.arithmetic == pb.ARITHMETIC_OTHER:
        broken = (tap.where for tap in verdicts.not_finite if tap.name == "logits")
        lines += [f"no KL and no ranks: {where} is not finite" for where in broken][:1]
    if verdicts.contract is not None:
        lines.append(f"judged by {verdicts.contract}")
    if verdicts.word == "partial" and (level := level_of(verdicts.case.name)):
        lines.append(f"level {level} needs of this case, too: {', '.join(verdicts.lacks)}")
    if verdicts.unreached:
        more = "" if verdicts.partial else ": --partial judges what is there"
        lines.append(f"nothing was delivered of {', '.join(verdicts.unreached)}{more}")
    asked = "" if verdicts.partial else "; --partial asks for no more"
    missing = [where for where in verdicts.no_results if where not in verdicts.last_alone]
    for where, state in ((missing, "not compared"), (verdicts.last_alone, "compared at the last position alone")):
        if where:
            more = f" and {len(where) - _FEW} more" if len(where) > _FEW else ""
            few = ", ".join(where[:_FEW])
            lines.append(f"results of the case that were {state}, so the verdict is partial: {few}{more}{asked}")
    if verdicts.judged == "run only" and verdicts.case.checkpoint:
        lines.append("run only: each op by itself is judged where the checkpoint is given, with --model")
    return lines


def _predicted(predictions: Predictions) -> list[str]:
    """A few lines: how far the distributions are apart, how often the best tokens agree, where they first do not."""
    first, worst = predictions.first_divergent, predictions.worst
    flip = "none" if first is None else f"{_where(first)}, where the golden's margin is {first.margin:.3g}"
    return [
        f"{len(predictions.tokens)} positions; KL(golden ‖ candidate) {predictions.mean_kl:.3g} nats a token, worst "
        f"{worst.kl:.3g} at {_where(worst)}",
        f"best token the same at {100 * predictions.top_1:.4g} %; {100 * predictions.top_10:.4g} % of the golden's "
        f"{predictions.top} best are the candidate's; worst rank of the golden's best: {predictions.worst_rank}",
        f"first position with another best token: {flip}",
    ]


def predictions_table(predictions: Predictions) -> Table:
    """Every position, the one that diverges most first."""
    rows = Table("step", "row", "position", "KL, nats", "rank", f"of {predictions.top} best", "margin", box=None)
    for token in sorted(predictions.tokens, key=lambda token: -token.kl):
        at = (token.step, token.row, token.position)
        figures = (*at, f"{token.kl:.3g}", token.rank, token.shared, f"{token.margin:.3g}")
        rows.add_row(*map(str, figures))
    return rows


def _where(token: Prediction) -> str:
    return f"step {token.step} [{token.row}, {token.position}]"


def less_than_both(results: Sequence[Verdicts]) -> str:
    """How many cases were judged by less than their run and their ops, or whose results nobody asked for."""
    counts = {
        "run only": sum(verdicts.judged == "run only" for verdicts in results),
        "ops only": sum(verdicts.judged == "ops only" for verdicts in results),
        "partial": sum(verdicts.word == "partial" for verdicts in results),
    }
    counted = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return f" ({counted})" if counted else ""
