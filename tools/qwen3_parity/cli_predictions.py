"""The command for lossy candidates: predictions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qwen3_golden import read
from qwen3_parity.golden_path import golden_of
from qwen3_parity.plain import plain
from qwen3_parity.predictions import Prediction, Predictions
from qwen3_parity.predictions import predictions as compare
from qwen3_parity.terminal import console

FILE = click.Path(path_type=Path)
_SHOWN = 8


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[GOLDEN] CANDIDATE")
@click.option("--json", "as_json", is_flag=True, help="Every position as JSON.")
def predictions(files: tuple[str, ...], as_json: bool) -> None:
    """What a lossy (quantised, say) candidate predicts, beside the golden: divergence, ranks, the first flip.

    Both were fed the same ids, so one flipped token does not end the comparison. Nothing passes or fails here, and the
    exit code is 0: parity is the business of check. The golden is found by the case's name when left out.
    """
    if len(files) > 2:
        raise click.UsageError("give one candidate, or a golden and a candidate")
    candidate = read(Path(files[-1]), digests=True)
    golden = read(Path(files[0]) if len(files) == 2 else golden_of(candidate), digests=True)
    found = compare(golden, candidate)
    if as_json:
        click.echo(json.dumps(plain(to_json(found)), indent=2))
    else:
        console().print(terminal(found))


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


def terminal(found: Predictions) -> RenderableType:
    """The summary, and the positions that diverge most."""
    table = Table("step", "row", "position", "KL, nats", "rank", f"of {found.top} best", "margin", box=None)
    for one in sorted(found.tokens, key=lambda one: -one.kl)[:_SHOWN]:
        figures = (one.step, one.row, one.position, f"{one.kl:.3g}", one.rank, one.shared, f"{one.margin:.3g}")
        table.add_row(*map(str, figures))
    return Group(*(Text(line) for line in summary(found)), Text("the positions that diverge most"), table)


def _where(one: Prediction) -> str:
    return f"step {one.step} [{one.row}, {one.position}]"
