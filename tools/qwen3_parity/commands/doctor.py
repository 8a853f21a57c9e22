"""What can run here: doctor."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence

import click
from rich.console import RenderableType
from rich.table import Table

from qwen3_golden import GOLDEN_ROOT, TABLES_ROOT, ParityError
from qwen3_golden.manifest import verify
from qwen3_parity.commands import examples, output_options
from qwen3_parity.commands._verbs import Verbs
from qwen3_parity.report.extras import COMMANDS, OPTIONS, Extra, extras
from qwen3_parity.report.output import Output


@click.command(epilog=examples("qwen3-parity doctor"))
@output_options("The version of each package.")
@click.pass_context
def doctor(context: click.Context, output: Output) -> None:
    """Say what is installed, which commands can run, where the goldens are, and whether they are the released ones.

    Exit code 1 where the golden set is not as its manifest says.
    """
    by_name = {extra.name: extra for extra in extras()}
    commands = {verb: COMMANDS.get(verb, "") for verb in _verbs(context)}
    ready = {verb: not needs or not by_name[needs].lacks for verb, needs in commands.items()}
    broken = _broken()
    data = {
        "python": platform.python_version(),
        "goldens": str(GOLDEN_ROOT),
        "tables": str(TABLES_ROOT),
        "problems": broken,
        "extras": {name: dict(extra.versions) for name, extra in by_name.items()},
        "commands": ready,
    }
    state = broken[0].splitlines()[0] if broken else "the goldens are as released"
    output.finish(
        1 if broken else 0,
        f"{sum(ready.values())} of {len(ready)} commands can run; {state}",
        lambda: data,
        lambda: _shown(by_name, commands, broken, output),
    )


def _shown(
    by_name: Mapping[str, Extra], commands: Mapping[str, str], broken: Sequence[str], output: Output
) -> Iterator[RenderableType]:
    table = Table("extra", "installed", "commands", box=None)
    table.add_row("", "yes", ", ".join(verb for verb, needs in commands.items() if not needs))
    for name, extra in by_name.items():
        verbs = [
            *(verb for verb, needs in commands.items() if needs == name),
            *([OPTIONS[name]] if name in OPTIONS else []),
        ]
        versions = ", ".join(f"{package} {number or '–'}" for package, number in extra.versions.items())
        state = versions if output.verbose else f"no: {', '.join(extra.lacks)}" if extra.lacks else "yes"
        table.add_row(name, state, ", ".join(verbs))
    yield table
    yield f"goldens: {GOLDEN_ROOT}"
    yield "as released" if not broken else "\n".join(broken)


def _verbs(context: click.Context) -> Sequence[str]:
    main = context.find_root().command
    return list(main.every_verb()) if isinstance(main, Verbs) else ()


def _broken() -> list[str]:
    """What of the golden set is not as its manifest says; nothing where somebody has a set of their own."""
    if GOLDEN_ROOT != TABLES_ROOT:
        return []
    try:
        verify()
    except ParityError as error:
        return [str(error)]
    return []
