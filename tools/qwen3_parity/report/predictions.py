"""What a lossy candidate predicts, beside the golden: a few lines, a table, JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qwen3_parity.judge.predictions import Prediction, Predictions

_SHOWN = 8


def to_json(found: Predictions) -> dict[str, Any]:
    """The figures of all positions together, and of each."""
    first = found.first_divergent
    return {
        "tokens": len(found.tokens),
        "mean_kl": found.mean_kl,
        "worst_kl": found.worst.kl,
        "top_1": found.top_1,
        "top_10": found.top_10,
        "worst_rank": found.worst_rank,
        "first_divergent": None if first is None else asdict(first),
        "positions": [asdict(one) for one in found.tokens],
    }


def summary(found: Predictions) -> list[str]:
    """A few lines: how far the distributions are apart, how often the best tokens agree, where they first do not."""
    first = found.first_divergent
    flip = "none" if first is None else f"{_where(first)}, where the golden's margin is {first.margin:.3g}"
    return [
        f"{len(found.tokens)} positions; KL(golden ‖ candidate) {found.mean_kl:.3g} nats a token, worst "
        f"{found.worst.kl:.3g} at {_where(found.worst)}",
        f"best token the same at {100 * found.top_1:.4g} %; {100 * found.top_10:.4g} % of the golden's {found.top} "
        f"best are the candidate's; worst rank of the golden's best: {found.worst_rank}",
        f"first position with another best token: {flip}",
    ]


def terminal(found: Predictions, *, every: bool = False) -> RenderableType:
    """The summary, and the positions that diverge most (`every`: all, the worst first)."""
    table = Table("step", "row", "position", "KL, nats", "rank", f"of {found.top} best", "margin", box=None)
    for one in sorted(found.tokens, key=lambda one: -one.kl)[: None if every else _SHOWN]:
        figures = (one.step, one.row, one.position, f"{one.kl:.3g}", one.rank, one.shared, f"{one.margin:.3g}")
        table.add_row(*map(str, figures))
    return Group(*(Text(line) for line in summary(found)), Text("the positions that diverge most"), table)


def _where(one: Prediction) -> str:
    return f"step {one.step} [{one.row}, {one.position}]"
