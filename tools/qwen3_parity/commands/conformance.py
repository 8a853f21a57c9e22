"""A port as a process, asked over a pipe: conformance."""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import count as numbers
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_golden.contract import released_cases
from qwen3_golden.whole import write_whole
from qwen3_parity.commands import examples, output_options, selection_options, typed
from qwen3_parity.conformance.known import Known, expected, load, surprises
from qwen3_parity.conformance.port import Limits, Port
from qwen3_parity.conformance.requests import is_asked
from qwen3_parity.conformance.run import KINDS, Conformance, Fresh
from qwen3_parity.conformance.run import conformance as run
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.folder.levels import LEVELS, cases_of
from qwen3_parity.judge.candidates import golden_names
from qwen3_parity.judge.selection import EVERY, Selection
from qwen3_parity.report import conformance as report
from qwen3_parity.report.next_step import Next, after_conformance
from qwen3_parity.report.output import Output
from qwen3_parity.report.progress import Progress

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from qwen3_parity.conformance.fresh import Drawn

FILE = click.Path(path_type=Path)
FRESH = 20
"""Fresh cases where nobody says how many."""


@click.command(
    epilog=examples(
        "qwen3-parity conformance --level causal -- ./my-port",
        "qwen3-parity conformance --seed 7 --fresh 200 -- python my_port.py",
    )
)
@selection_options
@click.argument("command", nargs=-1, required=True, metavar="-- PORT [ARGUMENT…]")
@click.option(
    "--level", "levels", multiple=True, type=click.Choice(list(LEVELS)), help="Its cases, none unsupported; repeatable."
)
@click.option("--known", type=FILE, metavar="FILE", help="What is known to fail: 'case # message' a line.")
@click.option("--out", type=FILE, help="Keep the answers here, for check, diagnose and card.")
@click.option(
    "--timeout", type=click.FloatRange(min=0.01), default=60.0, show_default=True, help="Seconds for an answer."
)
@click.option(
    "--memory", type=click.FloatRange(min=0.01), help="GiB of address space for each process  [default: no limit]"
)
@click.option("--seed", type=click.IntRange(0), help="What fresh cases are drawn from  [default: another each time]")
@click.option(
    "--fresh",
    "count",
    type=click.IntRange(0),
    help=f"Fresh cases after the committed ones  [default: {FRESH}, none where cases are chosen by name]",
)
@click.option(
    "--save", type=FILE, default=Path("build"), show_default=True, help="A fresh case that fails goes to fresh/ in it."
)
@click.option("--case", "files", type=FILE, multiple=True, help="Ask for the case of this golden alone; repeatable.")
@output_options("Every case that fails in full.")
@click.option("--junit", type=FILE, help="Also write JUnit's XML, a test for each case.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes side by side.")
def conformance(
    selection: Selection,
    command: tuple[str, ...],
    levels: tuple[str, ...],
    known: Path | None,
    out: Path | None,
    timeout: float,
    memory: float | None,
    jobs: int,
    seed: int | None,
    count: int | None,
    save: Path,
    files: tuple[Path, ...],
    output: Output,
    junit: Path | None,
) -> None:
    """Start a port, ask it for the committed cases over a pipe, and judge its answers.

    The messages stand in qwen3-parity show golden/README.md. Then it is asked for fresh cases, drawn from a seed that
    is printed, and judged against the specification: of the levels that are asked for, or whatever the port supports.
    The first that fails is diagnosed as it was drawn, made small, and both are saved. With --case of any model's
    golden, they are drawn from its graph, of other lengths and paddings.

    Whatever the port does, the run goes on. Exit code 1 where a case fails that is not among the known ones, where a
    known one does not fail or fails otherwise, and where nothing was judged. Interrupted, it judges what was answered.
    """
    chosen = {file: read(file).case for file in files}
    goldens = {case.name: file for file, case in chosen.items()} or golden_names()
    graphs = [file for file, case in chosen.items() if case.mode == pb.GRAPH]
    cases = _cases(selection, levels, goldens, by_file=bool(files))
    listed = load(known) if known else []
    limits = Limits(timeout, int((memory or 0) * (1 << 30)))
    demanded = count is not None or seed is not None
    if count is None:
        count = FRESH if demanded or (selection == EVERY and not files) else 0
    lacking = _lacking(levels, graphs, demanded=demanded) if count else ""
    drawn = _strategy(levels, graphs) if count and not lacking else None
    with tempfile.TemporaryDirectory() as folder, output.progress("asking", "cases") as update:
        result = run(
            command,
            cases,
            out or Path(folder),
            goldens=goldens,
            limits=limits,
            jobs=jobs,
            required=bool(levels),
            progress=update,
            count=update.count,
        )
        fresh = None
        if drawn is not None and result.goes_on:
            fresh = _fresh(command, limits, drawn, seed, count, save, update, demanded=demanded)
            fresh.against = "the golden's graph" if graphs else fresh.against
    _finish(result, fresh, listed, cases, lacking, out, junit, output)


def _finish(
    result: Conformance,
    fresh: Fresh | None,
    listed: Sequence[Known],
    cases: Sequence[str],
    lacking: str,
    out: Path | None,
    junit: Path | None,
    output: Output,
) -> None:
    """Hold what fails against the list of what is known to, write it down, and leave with the exit code."""
    failed = dict(result.failed)
    if fresh and fresh.failure:
        failed[fresh.failure.name] = fresh.failure.message
    asked = [name for name in cases if name not in result.not_judged]
    lines = list(surprises(listed, failed, list(dict.fromkeys([*asked, *failed]))))
    as_listed = expected(listed, failed)
    if junit:
        write_whole(junit, report.junit(result, fresh, cases, lines, as_listed))
    diagnoses = {} if output.quiet and not output.as_json else _diagnosed(fresh)
    shown = report.terminal(result, fresh, lines, len(as_listed), out, diagnoses, every=output.verbose)
    if lacking:
        shown.append(f"no fresh cases: {lacking}, pip install 'qwen3-parity[conformance]'")

    def following() -> Next:
        return after_conformance(result, fresh, lines, as_listed, typed(out=out and _beside(out)), out)

    code = int(bool(lines or result.folder is None or report.remarks(result, fresh)))
    if stop := report.stopped(result, fresh):
        code = 128 + int(getattr(stop, "signal", signal.SIGINT))
    output.finish(
        code,
        report.verdict(result, fresh, lines),
        lambda: report.to_json(result, fresh, lines, code, diagnoses) | {"next": following()},
        lambda: shown,
    )


def _beside(out: Path) -> Path:
    """A folder beside that of the answers, which is not there yet."""
    return next(path for number in numbers(2) if not (path := out.with_name(f"{out.name}-{number}")).exists())


def _cases(selection: Selection, levels: Sequence[str], goldens: Mapping[str, Path], *, by_file: bool) -> list[str]:
    """The cases to ask for, `by_file`: of goldens that are named one by one, other models' among them.

    Raises `ParityError` for a level's golden that is not here, and where all are other models'; `UsageError` for none.
    """
    cases = cases_of(levels, list(goldens) if by_file else released_cases()) if levels else list(goldens)
    if lacks := [name for name in cases if name not in goldens]:
        raise ParityError(
            "--level",
            "a level's cases are those of the release, and some of their goldens are not here",
            expected=f"every golden of the levels in {GOLDEN_ROOT}",
            got=f"no {', '.join(lacks)}",
            next_step="unset QWEN3_PARITY_GOLDENS, or leave --level out",
        )
    selected = [name for name in cases if selection.takes(name, goldens[name])]
    if not selected:
        raise click.UsageError("no case is left by --level, --only, --exclude and --without")
    asked = [name for name in selected if by_file or is_asked(goldens[name])]
    if not asked:
        raise ParityError(
            selected[0],
            "a port is asked for a model that its golden's graph describes only by --case",
            expected="a case of one of the networks in golden/networks",
            got=f"{len(selected)} of other models",
            next_step=f"qwen3-parity conformance --case {goldens[selected[0]]} -- PORT",
        )
    return asked


def _lacking(levels: Sequence[str], graphs: Sequence[Path], *, demanded: bool) -> str:
    """What fresh cases lack to be drawn, empty for nothing; where they are `demanded`, raises what is to be done."""
    if demanded and levels and not graphs and not any(KINDS.get(level) for level in levels):
        raise click.UsageError(f"no fresh case is drawn for {', '.join(levels)}: leave --fresh and --seed out")
    if find_spec("hypothesis"):
        return ""
    lacking = "fresh cases are drawn by hypothesis"
    if demanded:
        raise ParityError(
            "--fresh",
            lacking,
            expected="the extra [conformance]",
            got="no hypothesis",
            next_step="pip install 'qwen3-parity[conformance]', or --fresh 0 for the committed cases alone",
        )
    return lacking


def _strategy(levels: Sequence[str], graphs: Sequence[Path]) -> SearchStrategy[Drawn] | None:
    """What fresh cases are drawn from: these goldens' graphs, else the levels; None for levels of which none is."""
    from qwen3_parity.conformance.fresh import strategy
    from qwen3_parity.conformance.graph_cases import graph_cases

    return graph_cases(graphs) if graphs else strategy(levels)


def _fresh(
    command: Sequence[str],
    limits: Limits,
    drawn: SearchStrategy[Drawn],
    seed: int | None,
    count: int,
    save: Path,
    progress: Progress,
    *,
    demanded: bool,
) -> Fresh:
    """A run of fresh cases; that none was judged is a remark where they are `demanded`."""
    from hypothesis.configuration import set_hypothesis_home_dir

    from qwen3_parity.conformance.fresh import fresh

    number = random.SystemRandom().randrange(10**6) if seed is None else seed
    with tempfile.TemporaryDirectory() as home, Port(command, limits) as port:
        set_hypothesis_home_dir(home)  # or it leaves a folder where people work
        try:
            outcome = fresh(port.ask, drawn, number, count, save, progress, progress.count)
        finally:
            set_hypothesis_home_dir(None)
    outcome.remarks += port.remarks
    if demanded and not outcome.judged and outcome.stopped is None:
        outcome.remarks.append(f"{count} fresh cases were asked for, and none was answered")
    return outcome


def _diagnosed(fresh: Fresh | None) -> dict[str, Diagnosis]:
    """The diagnoses of the case that failed, as it was drawn and made small, by name; none where nothing answers it."""
    from qwen3_parity.checkpoints.weights import weights_of
    from qwen3_parity.diagnosis import diagnose

    diagnoses = {}
    for failure in (fresh.drawn, fresh.failure) if fresh else ():
        if failure is None or failure.answer is None or failure.name in diagnoses:
            continue
        golden, answer = read(failure.golden, digests=True), read(failure.answer, digests=True)
        with suppress(ParityError):  # an answer that check refuses, too, as its message says
            diagnoses[failure.name] = diagnose(golden, answer, weights_of(golden, failure.folder))
    return diagnoses
