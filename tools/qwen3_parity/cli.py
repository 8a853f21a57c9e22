"""The command line. Exit codes: 0 parity, 1 divergence, 2 the input cannot be read, verified or matched.

Each command imports what it runs when it runs: nobody who asks for help waits for PyTorch.
"""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path

import click

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_golden.whole import finish_change, write_whole
from qwen3_parity import report
from qwen3_parity.check import check as judge
from qwen3_parity.cli_budgets import budgets
from qwen3_parity.cli_diagnose import diagnose
from qwen3_parity.cli_export import export
from qwen3_parity.cli_import import import_
from qwen3_parity.cli_initialize import initialize
from qwen3_parity.cli_mechanical import mechanical
from qwen3_parity.cli_mutants import mutants
from qwen3_parity.cli_predictions import predictions, summary
from qwen3_parity.cli_reference import capture, regenerate
from qwen3_parity.cli_tokenize import tokenize
from qwen3_parity.golden_path import golden_of, golden_path
from qwen3_parity.predictions import predictions as compare_predictions
from qwen3_parity.show import describe
from qwen3_parity.terminal import console

BUILD = Path("build/parity")
FILE = click.Path(path_type=Path)


class Group(click.Group):
    """A group whose commands turn a `ParityError`, and what a disk refuses, into a message and exit code 2."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command, a change of the golden set that was interrupted carried out or undone before it."""
        try:
            finish_change(GOLDEN_ROOT)
            return super().invoke(ctx)
        except ParityError as error:
            click.echo(str(error), err=True)
            sys.exit(2)
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever reads our output has enough of it; click ends quietly
                raise
            click.echo(str(_refused(error)), err=True)
            sys.exit(2)


def _refused(error: OSError) -> ParityError:
    return ParityError(
        error.filename or "a file",
        "it cannot be read or written",
        expected="a path that may be used and a disk with space",
        got=error.strerror or error,
        next_step="check the path, its permissions and the free space",
    )


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="qwen3-parity")
def main() -> None:
    """Compare an implementation of a Qwen3-type transformer, or its tokenizer, with Hugging Face's, tap by tap."""


main.add_command(regenerate)
main.add_command(capture)
main.add_command(diagnose)
main.add_command(mutants)
main.add_command(mechanical)
main.add_command(budgets)
main.add_command(tokenize)
main.add_command(export)
main.add_command(predictions)
main.add_command(import_)
main.add_command(initialize)


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="[GOLDEN] CANDIDATE")
@click.option("--json", "as_json", is_flag=True, help="Every verdict as JSON instead of a table.")
@click.option("--html", type=FILE, help="Also write a report for a browser.")
@click.option("--all", "every", is_flag=True, help="Show every tap, not only the worst.")
@click.option("--model", type=FILE, help="The checkpoint of a captured case: its ops are judged alone, too.")
@click.option("--partial", is_flag=True, help="The case's results (logits, generated ids, …) need not be there.")
def check(
    files: tuple[str, ...], as_json: bool, html: Path | None, every: bool, model: Path | None, partial: bool
) -> None:
    """Judge a recording against a golden (found by the case's name when left out), or any two recordings.

    Where the checkpoint is at hand, every op of the candidate is also judged alone, on the candidate's own inputs;
    without it the verdict is of the run only.
    """
    from qwen3_parity.weights import weights_at_hand

    if len(files) > 2:
        raise click.UsageError("give one candidate, or a golden and a candidate")
    candidate = read(Path(files[-1]), digests=True)
    golden = read(Path(files[0]) if len(files) == 2 else golden_of(candidate), digests=True)
    verdicts = judge(golden, candidate, weights_at_hand(golden, GOLDEN_ROOT / "checkpoints", model), partial=partial)
    if as_json:
        click.echo(json.dumps(verdicts.to_json(), indent=2))
    else:
        console().print(report.terminal(verdicts, every=every))
        if verdicts.arithmetic == pb.ARITHMETIC_OTHER and golden.get("logits"):
            console().print(*summary(compare_predictions(golden, candidate)), sep="\n", soft_wrap=True)
    if html:
        write_whole(html, report.html([verdicts]))
    sys.exit(verdicts.exit_code)


@main.command()
@click.argument("golden")
@click.option("--out", type=FILE, help="The recording's file  [default: build/parity/CASE.pb]")
@click.option("--impl", help="Somebody else's model or tokenizer, as package.module:factory.")
@click.option("--backend", type=click.Choice(["eager", "sdpa", "flex"]), default="eager", show_default=True)
@click.option("--model", type=FILE, help="The checkpoint directory of a captured case.")
@click.option("--tokenizer", type=FILE, help="The directory of a tokenization case  [default: the committed one]")
@click.option("--checkpoints", type=FILE, default=GOLDEN_ROOT / "checkpoints", help="Where the case's checkpoints are.")
@click.option("--taps", multiple=True, metavar="GLOB", help="Only these taps, or: op, sub-layer, layer  [default: op]")
def record(
    golden: str,
    out: Path | None,
    impl: str | None,
    backend: str,
    model: Path | None,
    tokenizer: Path | None,
    checkpoints: Path,
    taps: tuple[str, ...],
) -> None:
    """Run an implementation (ours, unless --impl) on the case of GOLDEN, a file or a case's name, and record it."""
    from qwen3_parity import record as recorder
    from qwen3_parity.implementation import factory, golden_dtype
    from qwen3_parity.tokenization.record import record_tokenization
    from qwen3_parity.tokenization.runner import ours

    reference = read(golden_path(golden))
    path = out or BUILD / f"{reference.case.name}.pb"
    if reference.case.mode == pb.TOKENIZATION:
        if model or taps:
            raise click.UsageError("--model and --taps are for networks; this case is a tokenizer's")
        build = recorder.load_factory(impl) if impl else ours
        record_tokenization(reference, path, build, directory=tokenizer)
    else:
        if tokenizer:
            raise click.UsageError("--tokenizer is for tokenization cases; this one is a network's")
        build = recorder.load_factory(impl) if impl else factory(backend, golden_dtype(reference))
        globs = tuple(glob for word in taps for glob in recorder.GRANULARITY.get(word, (word,)))
        recorder.record(reference, path, build, checkpoints=checkpoints, model=model, taps=globs)
    click.echo(f"{path}\nnext: qwen3-parity check {golden} {path}{f' --model {model}' if model else ''}")


@main.command()
@click.argument("file", type=FILE)
@click.option("--tap", "taps", multiple=True, metavar="GLOB", help="Only these taps; with their numbers.")
def show(file: Path, taps: tuple[str, ...]) -> None:
    """Print what a recording holds."""
    console().print(describe(read(file, digests=True), taps))


@main.command()
@click.option("--only", default="*", metavar="GLOB", help="Only these cases; 'tokenization/*' are a tokenizer's.")
@click.option("--impl", help="Somebody else's model (or tokenizer, see --only), as package.module:factory.")
@click.option("--backend", type=click.Choice(["eager", "sdpa", "flex"]), default="eager", show_default=True)
@click.option("--out", type=FILE, default=BUILD, show_default=True, help="Recordings and report.html go here.")
@click.option("--partial", is_flag=True, help="The cases' results (logits, generated ids, …) need not be there.")
def parity(only: str, impl: str | None, backend: str, out: Path, partial: bool) -> None:
    """Record an implementation on every committed golden, judge it, and write a report.

    Ours is a network and a tokenizer; with --impl only the goldens of one of them are run.
    """
    from qwen3_parity.suite import run

    results = run(out, only=only, impl=impl, backend=backend, partial=partial)
    page = out / "report.html"
    write_whole(page, report.html(results))
    screen = console()
    screen.print(report.overview(results))
    screen.print(f"report: {page}", soft_wrap=True)
    sys.exit(max(verdicts.exit_code for verdicts in results))
