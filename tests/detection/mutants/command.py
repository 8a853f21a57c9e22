"""The command that seeds known bugs, and says whether each is caught, blamed and named: mutants."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click
from rich.progress import Progress

from detection.command import Command
from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_parity.report.terminal import console

if TYPE_CHECKING:
    from detection.mutants import Mutant


def chosen(globs: Sequence[str]) -> list[Mutant]:
    """The mutants whose names match one of the globs, all without one; raises `ParityError` when there are none."""
    from detection.mutants import catalogue

    selected = [mutant for mutant in catalogue() if not globs or any(fnmatchcase(mutant.name, glob) for glob in globs)]
    if not selected:
        raise ParityError(
            " ".join(globs),
            "no mutant has such a name",
            expected="a glob like 'ROP-*' or 'own/*'",
            got="no match",
            next_step="python -m detection.mutants --list",
        )
    return selected


def everywhere() -> Callable[[Mutant], Sequence[str]]:
    """Each mutant's own cases and all others that could show it: of its kind of model, or of tokenizers.

    A loader's bug has its own checkpoints alone.
    """
    from qwen3_parity.recording.suite import goldens

    models = [golden.case.name for golden in map(read, goldens()) if golden.case.mode not in (pb.OP, pb.TOKENIZATION)]
    texts = sorted(f"tokenization/{path.stem}" for path in (GOLDEN_ROOT / "cases" / "tokenization").glob("*.pb"))

    def cases(mutant: Mutant) -> Sequence[str]:
        of_classic = mutant.cases[0].startswith("classic/")
        networks = [name for name in models if name.startswith("classic/") == of_classic]
        others = [] if mutant.of_weights else texts if mutant.of_tokenizer else networks
        return list(dict.fromkeys([*mutant.cases, *others]))

    return cases


@click.command(cls=Command)
@click.argument("globs", nargs=-1, metavar="[GLOB]…")
@click.option("--all-cases", is_flag=True, help="All model, or tokenizer, cases, not only those that should show it.")
@click.option("--blame-only", is_flag=True, help="Blame the ops, explain nothing: faster.")
@click.option("--list", "listed", is_flag=True, help="Only say which there are.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes at a time.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds for each mutant.")
@click.option("--json", "as_json", is_flag=True, help="Every outcome as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="The table in Markdown.")
def mutants(
    globs: tuple[str, ...],
    all_cases: bool,
    blame_only: bool,
    listed: bool,
    workers: int,
    timeout: float,
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Seed known bugs in our implementation and see whether each is caught, blamed and named.

    Exit code 1 when a bug is not caught or cannot be run.
    """
    selected = chosen(globs)
    if listed:
        click.echo("\n".join(f"{mutant.name}: {mutant.says}" for mutant in selected))
        return
    from detection.mutants.isolated import run_all
    from detection.mutants.judged import by_diagnosis, by_replay
    from detection.mutants.table import markdown, terminal, to_json, totals

    outcomes = []
    with Progress(console=console(stderr=True), auto_refresh=False) as progress:  # no thread: the work is forked
        bar = progress.add_task("mutants", total=len(selected))
        judge = by_replay if blame_only else by_diagnosis
        for outcome in run_all(
            selected,
            judge=judge,
            cases=everywhere() if all_cases else lambda mutant: mutant.cases,
            workers=workers,
            timeout=timeout,
        ):
            outcomes.append(outcome)
            progress.update(bar, advance=1, description=outcome.name, refresh=True)
    order = [mutant.name for mutant in selected]
    outcomes.sort(key=lambda outcome: order.index(outcome.name))
    if as_json:
        click.echo(json.dumps(to_json(outcomes), indent=2))
    elif as_markdown:
        click.echo(markdown(outcomes))
    else:
        console().print(terminal(outcomes))
    sums = totals(outcomes)
    sys.exit(0 if sums["caught"] == sums["mutants"] and not sums["failures"] else 1)
