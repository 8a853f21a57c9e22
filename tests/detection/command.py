"""Commands of this package: they refuse bad input as those of `qwen3-parity` do."""

from __future__ import annotations

import click

from qwen3_parity.cli import refusals


class Command(click.Command):
    """A command whose `ParityError`, and what a disk refuses, end in a message and exit code 2."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with refusals():
            return super().invoke(ctx)
