"""What a recording holds, beside a golden or alone, and what a name means: show."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import click
from rich.text import Text

from qwen3_golden import BUG_ID, ParityError, bug, bugs, pb, read
from qwen3_parity.check import check_run
from qwen3_parity.commands import CASE_OR_FILE, examples, output_options
from qwen3_parity.judge.conventions import conventional
from qwen3_parity.judge.golden_path import case_names, golden_path
from qwen3_parity.judge.next_command import command
from qwen3_parity.report import show as pages
from qwen3_parity.report import show_diff, show_page
from qwen3_parity.report import verdicts as report
from qwen3_parity.report.output import Output


@click.command(
    epilog=examples(
        "qwen3-parity show decoder/plain build/parity/decoder/plain.pb --tap '*.q_rope'",
        "qwen3-parity show decoder/plain",
        "qwen3-parity show rope.interleaved",
        "qwen3-parity show docs/check-your-model.md",
    )
)
@click.argument("names", nargs=-1, required=True, metavar="[GOLDEN] CANDIDATE | NAME", shell_complete=CASE_OR_FILE)
@click.option("--tap", "taps", multiple=True, metavar="GLOB", help="Only these taps; with their numbers.")
@output_options("Every form of a mistake.")
def show(names: tuple[str, ...], taps: tuple[str, ...], output: Output) -> None:
    """Print what a recording holds, both sides of a comparison, or what a name means.

    Of a case it prints what it shows, its inputs, its numbers, where file and checkpoint lie, and every tap; of a
    mistake as rope.interleaved and of a bug's id as MSK-21 what goes wrong, and what is right; a page that a message
    names, as docs/glossary.md or golden/golden.proto, as it is written.

    GOLDEN and CANDIDATE stand side by side: shapes, dtypes and RMS of both, the largest difference and its share of the
    budget; with --tap also the first and the worst element, both values, and how many numbers lie between them.
    """
    if len(names) > 2:
        raise click.UsageError("give a recording, a golden and a candidate, or a name")
    if len(names) == 2:
        _beside(golden_path(names[0]), golden_path(names[1]), taps, output)
    (name,) = names
    if show_page.is_page(name):
        text = show_page.page_text(name)
        output.finish(0, name, lambda: {"page": name, "text": text}, lambda: [Text(text.rstrip())])
    is_file = name.endswith(".pb") or Path(name).exists() or name in case_names()
    if not is_file and BUG_ID.fullmatch(name) and any(row.id == name.partition("/")[0] for row in bugs()):
        row = bug(name)
        output.finish(0, row.wrong, lambda: pages.bug_to_json(row), lambda: [pages.describe_bug(row)])
    if not is_file:
        _mistake(name, output)
    recording = read(golden_path(name), digests=True)
    output.finish(
        0,
        f"{recording.case.name}: {len(recording.tensors)} tensors",
        lambda: pages.to_json(recording, taps),
        lambda: [pages.describe(recording, taps)],
    )


def _mistake(name: str, output: Output) -> NoReturn:
    from qwen3_parity.report import show_name

    known = show_name.mistakes_named(name)
    output.finish(
        0,
        "; ".join(f"{mistake.name}: {mistake.says[0]}" for mistake in known),
        lambda: show_name.to_json(known),
        lambda: [show_name.describe(mistake, every=output.verbose) for mistake in known],
    )


def _beside(golden_file: Path, file: Path, taps: tuple[str, ...], output: Output) -> NoReturn:
    """Both sides and nothing more: which is wrong, `check` says, and the exit code is 0."""
    golden, candidate = (read(path, digests=True) for path in (golden_file, file))
    candidate = conventional(candidate, golden).recording
    verdicts = check_run(golden, candidate)
    if golden.case.mode == pb.TOKENIZATION:  # its problems have both sides, stage by stage
        output.finish(0, report.summary(verdicts), verdicts.to_json, lambda: [report.terminal(verdicts, every=True)])
    rows = show_diff.rows(golden, candidate, verdicts, taps)
    if not rows:
        raise ParityError(
            file,
            "no tap of either side is selected",
            expected="a glob over the taps that qwen3-parity show prints",
            got=" ".join(taps),
            next_step=command("show", file),
        )
    output.finish(
        0,
        show_diff.beside(verdicts),
        lambda: show_diff.to_json(rows, verdicts),
        lambda: [show_diff.terminal(rows, verdicts)],
    )
