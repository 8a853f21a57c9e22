"""The verbs of the command line, one file each, and the options that several of them have."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from time import monotonic
from typing import Any

import click
from click.shell_completion import CompletionItem

from qwen3_golden import GOLDEN_ROOT, table
from qwen3_parity.commands._verbs import verb_of
from qwen3_parity.judge.features import FEATURES
from qwen3_parity.judge.golden_path import case_names
from qwen3_parity.judge.selection import EVERY, Selection
from qwen3_parity.report.output import Output

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
"""What a shell offers for the beginning of a word."""


def words(offers: Callable[[], Iterable[str]], kind: str = "") -> Completion:
    """Those of `offers` that begin as the word does, and with `kind` the shell's own "file" or "dir"."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        own_items = [CompletionItem(kind and incomplete, type=kind)] if kind else []
        return [*(CompletionItem(word) for word in dict.fromkeys(offers()) if word.startswith(incomplete)), *own_items]

    return complete


CASES = words(case_names)
CASE_OR_FILE = words(case_names, "file")
DIRECTORY = words(tuple, "dir")


FILE = click.Path(path_type=Path)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def model_option(which: str, **more: Any) -> Decorator:
    """--model, a checkpoint; `which` ends the sentence of its help."""
    about = f"The checkpoint, a directory or a hub id, {which}"
    return click.option("--model", metavar="DIR_OR_HUB_ID", shell_complete=DIRECTORY, help=about, **more)


checkpoints_option = click.option(
    "--checkpoints",
    type=FILE,
    default=GOLDEN_ROOT / "checkpoints",
    shell_complete=DIRECTORY,
    help="The folder with the checkpoints of cases  [default: the committed ones]",
)
partial_option = click.option(
    "--partial", is_flag=True, help="The case's results (logits, generated ids, …) need not be there."
)


def tap_names(sets: Iterable[str] = ()) -> Completion:
    """The taps of the table as globs over layers, and sets of taps."""
    return words(lambda: [*sets, *(row.pattern.replace("{layer}", "*") for row in table())])


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--only, --exclude and --without, which the command gets as `selection`."""

    @wraps(command)
    def selected(only: tuple[str, ...], exclude: tuple[str, ...], without: tuple[str, ...], **rest: Any) -> Any:
        return command(selection=Selection(only or EVERY.only, exclude, without), **rest)

    names = click.Choice(list(FEATURES))
    for option in (
        click.option("--without", multiple=True, type=names, help="Leave out cases with this feature; repeatable."),
        click.option(
            "--exclude", multiple=True, metavar="GLOB", shell_complete=CASES, help="Leave out these cases; repeatable."
        ),
        click.option(
            "--only",
            multiple=True,
            metavar="GLOB",
            shell_complete=CASES,
            help="Only these cases, as 'decoder/*'; repeatable.",
        ),
    ):
        selected = option(selected)
    return selected


def output_options(more: str) -> Decorator:
    """--json, -q and -v, which the command gets as `output`; `more` says what -v adds, "" that there is no more."""

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def answering(as_json: bool, quiet: bool, verbose: bool = False, **rest: Any) -> Any:
            if quiet and verbose:
                raise click.UsageError("-q or -v, not both")
            verb = verb_of(click.get_current_context())
            return command(output=Output(verb, as_json, quiet, verbose), **rest)

        for option in (
            *[click.option("-v", "--verbose", is_flag=True, help=more)] * bool(more),
            click.option("-q", "--quiet", is_flag=True, help="One line, the verdict, and no progress."),
            click.option("--json", "as_json", is_flag=True, help="The result as JSON: show docs/command-line.md."),
        ):
            answering = option(answering)
        return answering

    return with_options


def _moment(_ctx: click.Context, _param: click.Parameter, seconds: float | None) -> float:
    return math.inf if seconds is None else monotonic() + seconds


budget_option = click.option(
    "--budget",
    "deadline",
    type=click.FloatRange(0),
    callback=_moment,
    metavar="SECONDS",
    help="Cut the search for mistakes then, and say so; without it, it ends by itself, on every machine alike.",
)
"""--budget, which the command gets as `deadline`, a moment of the monotonic clock in seconds."""


def typed(**instead: object) -> str:
    """The command that runs, as it was typed, some options with another value."""
    context = click.get_current_context()
    options, rest = ["qwen3-parity", context.info_name or ""], list[str]()
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = instead.get(name, context.params[name])
        values = list(map(str, value if isinstance(value, tuple) else (value,)))
        if isinstance(parameter, click.Argument):
            rest += ["--", *values]
        elif isinstance(parameter, click.Option) and parameter.is_flag:
            options.append(parameter.opts[-1])
        else:
            options += [word for text in values for word in (parameter.opts[-1], text)]
    return shlex.join([*options, *rest])


def examples(*commands: str) -> str:
    """The closing paragraph of a verb's --help."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])
