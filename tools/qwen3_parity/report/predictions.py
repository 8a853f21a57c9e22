"""What a lossy candidate predicts, beside the golden: a few lines, and a table."""

from __future__ import annotations

from rich.table import Table

from qwen3_parity.judge.predictions import Prediction, Predictions


def summary(predictions: Predictions) -> list[str]:
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


def table(predictions: Predictions) -> Table:
    """Every position, the one that diverges most first."""
    rows = Table("step", "row", "position", "KL, nats", "rank", f"of {predictions.top} best", "margin", box=None)
    for token in sorted(predictions.tokens, key=lambda token: -token.kl):
        at = (token.step, token.row, token.position)
        figures = (*at, f"{token.kl:.3g}", token.rank, token.shared, f"{token.margin:.3g}")
        rows.add_row(*map(str, figures))
    return rows


def _where(token: Prediction) -> str:
    return f"step {token.step} [{token.row}, {token.position}]"
