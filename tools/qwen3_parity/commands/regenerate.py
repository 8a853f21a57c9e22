"""Record the reference again: regenerate."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import RenderableType
from rich.table import Table

from qwen3_parity.commands import FILE, examples, output_options, selection_options
from qwen3_parity.judge.selection import Selection
from qwen3_parity.report.output import Output
from qwen3_reference.versions import refuse_unsupported


@click.command(
    epilog=examples(
        "qwen3-parity regenerate --check --only 'encoder/*'",
        "qwen3-parity regenerate --accept --reason 'transformers 6'",
    )
)
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 when something differs.")
@selection_options
@click.option("--accept", is_flag=True, help="Take the new recordings; needs --reason.")
@click.option("--reason", help="Why the goldens change; goes into golden/CHANGELOG.md.")
@click.option("--out", type=FILE, default=Path("build/regenerate"), show_default=True, help="Where they are staged.")
@output_options("Every case, not only those that differ.")
def regenerate(
    selection: Selection, only_check: bool, accept: bool, reason: str | None, out: Path, output: Output
) -> None:
    """Record the committed goldens again in a clean process, and show what differs."""
    refuse_unsupported()
    from qwen3_parity.recording import regenerate as again

    if accept and not (reason and reason.strip()):
        raise click.UsageError("--accept needs --reason TEXT: a golden that changes without one is hearsay")
    if accept and only_check:
        raise click.UsageError("--check changes nothing, so it cannot --accept")
    with output.progress("recording", "cases") as update:
        again.record_reference(out, selection, update.count)
        differences = again.differences(out, selection=selection)
    table = Table("case", "", "share of a budget", "", box=None)
    changed = [d for d in differences if d.kind != again.SAME]
    for d in differences if output.verbose else changed:
        table.add_row(
            d.name, d.kind, "" if d.equal_bytes else f"{d.share:.2g}", "same bytes" if d.equal_bytes else d.text
        )
    line = f"{len(differences) - len(changed)} of {len(differences)} cases are the same"
    shown: list[RenderableType] = [*[table] * bool(table.rows), line]
    if accept and changed:
        again.accept(out, differences, str(reason))
        shown.append("accepted: golden/cases, MANIFEST.textproto and CHANGELOG.md are written")
    elif changed and not only_check:
        shown.append(f"staged in {out}; take them with: qwen3-parity regenerate --accept --reason TEXT")
    data = {
        "same": len(differences) - len(changed),
        "cases": [asdict(d) for d in differences],
        "staging": str(out),
        "accepted": bool(accept and changed),
    }
    output.finish(1 if only_check and changed else 0, line, lambda: data, lambda: shown)
