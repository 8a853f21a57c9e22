"""The verbs of the command line, one file each, and the options that several of them have."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from qwen3_parity.judge.features import FEATURES
from qwen3_parity.judge.selection import EVERY, Selection


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--only, --exclude and --without, which the command gets as `selection`."""

    @wraps(command)
    def selected(only: tuple[str, ...], exclude: tuple[str, ...], without: tuple[str, ...], **rest: Any) -> Any:
        return command(selection=Selection(only or EVERY.only, exclude, without), **rest)

    names = click.Choice(list(FEATURES))
    for option in (
        click.option("--without", multiple=True, type=names, help="Leave out cases with this feature; repeatable."),
        click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out these cases; repeatable."),
        click.option("--only", multiple=True, metavar="GLOB", help="Only these cases, as 'decoder/*'; repeatable."),
    ):
        selected = option(selected)
    return selected
