"""A group of verbs: a file of a package is a verb, a folder of it a group of its own; and how --help lists them."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import click

SECTIONS: Mapping[str, Sequence[str]] = {
    "Start": ("demo", "doctor"),
    "Judge": ("parity", "check", "diagnose", "report", "show"),
    "Bring in a model": ("record", "match-names", "dump"),
    "The reference": ("cases", "capture", "regenerate"),
    "A port in another language": ("conformance",),
    "Checkpoints": ("weights",),
}
"""The verbs as --help lists them."""
_WORDS = "qwen3_parity.words"
"""Where a context keeps the words of the verb that runs."""


def verb_of(ctx: click.Context) -> str:
    """The words of the verb that runs, as "check" or "weights export"; empty where what was typed is none."""
    return " ".join(ctx.meta.get(_WORDS, ()))


class Verbs(click.Group):
    """The verbs of a package, each imported when it is asked for.

    A file has the command under its own name, a trailing _ left out of the verb: `import_.py` is `import`,
    `match_names.py` is `match-names`. A folder is a group, and its docstring the group's help.
    """

    def __init__(self, *args: Any, package: str, **named: Any) -> None:
        super().__init__(*args, **named)
        self._package = package
        files = pkgutil.iter_modules([str(Path(folder)) for folder in import_module(package).__path__])
        self._files = {file.name.rstrip("_").replace("_", "-"): file for file in files if not file.name.startswith("_")}

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The verbs, by the names of the files."""
        return sorted(self._files)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb; None for a word that is no verb."""
        file = self._files.get(cmd_name)
        if file is None:
            return None
        module = import_module(f"{self._package}.{file.name}")
        if file.ispkg:
            return Verbs(cmd_name, package=module.__name__, help=module.__doc__, context_settings=self.context_settings)
        command = getattr(module, file.name)
        assert isinstance(command, click.Command)
        return command

    def every_verb(self) -> dict[str, click.Command]:
        """Each command by its words, those of the groups in it as "weights export"."""
        commands: dict[str, click.Command] = {}
        for word in sorted(self._files):
            command = self.get_command(click.Context(self), word)
            assert command is not None
            inner = command.every_verb() if isinstance(command, Verbs) else {"": command}
            commands |= {f"{word} {rest}".strip(): leaf for rest, leaf in inner.items()}
        return commands

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; what is no verb is said with the nearest one."""
        word = args[0]
        if not ctx.resilient_parsing and word not in self._files and not word.startswith("-"):
            near = get_close_matches(word, self._files, n=1)
            ctx.fail(f"no command {word!a}" + "".join(f": did you mean {verb}?" for verb in near))
        if word in self._files:
            ctx.meta[_WORDS] = (*ctx.meta.get(_WORDS, ()), word)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Every verb with a whole sentence, by what people want to do; nothing is cut."""
        sections = SECTIONS if ctx.parent is None else {"Commands": self.list_commands(ctx)}
        for title, verbs in sections.items():
            with formatter.section(title):
                formatter.write_dl([(verb, _sentence(self.get_command(ctx, verb))) for verb in verbs])


def _sentence(command: click.Command | None) -> str:
    assert command is not None
    return command.get_short_help_str(limit=1000)
