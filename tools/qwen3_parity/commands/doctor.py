"""What can run here: doctor."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence

import click
from rich.table import Table

from qwen3_golden import GOLDEN_ROOT, TABLES_ROOT, ParityError
from qwen3_golden.manifest import verify
from qwen3_parity.report.extras import COMMANDS, extras
from qwen3_parity.report.terminal import console


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Say what is installed, which commands can run, where the goldens are, and whether they are the released ones.

    Exit code 1 where the golden set is not as its manifest says.

    Example: qwen3-parity doctor
    """
    found = {one.name: one for one in extras()}
    commands = {verb: COMMANDS.get(verb, "") for verb in _verbs(context)}
    ready = {verb: not extra or found[extra].installed for verb, extra in commands.items()}
    broken = _broken()
    if as_json:
        said = {
            "schema": 1,
            "python": platform.python_version(),
            "goldens": str(GOLDEN_ROOT),
            "tables": str(TABLES_ROOT),
            "problems": broken,
            "extras": {name: dict(one.versions) for name, one in found.items()},
            "commands": ready,
        }
        click.echo(json.dumps(said, indent=2))
    else:
        table = Table("extra", "installed", "commands", box=None)
        table.add_row("", "yes", ", ".join(verb for verb, extra in commands.items() if not extra))
        for name, one in found.items():
            lacks = [package for package, number in one.versions.items() if number is None]
            verbs = ", ".join(verb for verb, extra in commands.items() if extra == name)
            table.add_row(name, f"no: {', '.join(lacks)}" if lacks else "yes", verbs or "conformance --fresh")
        screen = console()
        screen.print(table)
        screen.print(f"goldens: {GOLDEN_ROOT}", markup=False)
        screen.print("as released" if not broken else "\n".join(broken), markup=False)
    sys.exit(1 if broken else 0)


def _verbs(context: click.Context) -> Sequence[str]:
    main = context.find_root().command
    return main.list_commands(context) if isinstance(main, click.Group) else ()


def _broken() -> list[str]:
    """What of the golden set is not as its manifest says; nothing where somebody has a set of their own."""
    if GOLDEN_ROOT != TABLES_ROOT:
        return []
    try:
        verify()
    except ParityError as error:
        return [str(error)]
    return []
