"""A run of a port as a process, for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from qwen3_parity.conformance.run import Conformance
from qwen3_parity.report.folder import closing
from qwen3_parity.report.verdicts import cases_table, contracts


def terminal(found: Conformance, surprises: Sequence[str], known: int, out: Path | None) -> RenderableType:
    """A row for each case that was judged, then what is not supported, and a line for each that fails unexpectedly."""
    parts: list[RenderableType] = [cases_table(found.folder.results)] if found.folder else []
    unsupported = [f"{name} ({text})" if text else name for name, text in found.answers.unsupported.items()]
    if unsupported:
        parts.append(Text(f"not supported, {len(unsupported)}: {', '.join(unsupported)}", style="yellow"))
    parts += [Text(line, style="bold red") for line in (*found.answers.remarks, *surprises)]
    if known:
        parts.append(Text(f"known to fail, {known} of {len(found.failed)} that fail"))
    if found.failed:
        where = "with --out DIR the answers are kept: " if out is None else ""
        parts.append(Text(f"what is behind it: {where}qwen3-parity diagnose {out or 'DIR'}"))
    if found.folder is None:
        return Group(*parts, Text("nothing was judged, and that is a failure", style="bold red"))
    return Group(*parts, *map(Text, contracts(found.folder.results)), Text(closing(found.folder)))
