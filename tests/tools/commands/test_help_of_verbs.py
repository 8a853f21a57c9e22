"""Every verb's --help has examples, and they are commands that there are."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from qwen3_parity.cli import main

CONTEXT = click.Context(main, info_name="qwen3-parity")
VERBS = main.list_commands(CONTEXT)


def shown(verb: str) -> list[str]:
    """The examples of a verb, as --help prints them."""
    text = CliRunner().invoke(main, [verb, "--help"], prog_name="qwen3-parity", terminal_width=120).output
    _, _, rest = text.partition("Examples:\n")
    return re.findall(r"^ +(qwen3-parity .*)$", rest, re.MULTILINE)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_has_one_or_two_examples_of_it(verb: str) -> None:
    found = shown(verb)
    assert 1 <= len(found) <= 2 and {line.split()[1] for line in found} == {verb}


@pytest.mark.parametrize("verb", VERBS)
def test_an_example_can_be_parsed(verb: str) -> None:
    command = main.get_command(CONTEXT, verb)
    assert command is not None
    for line in shown(verb):
        _, _, *arguments = shlex.split(line)
        assert command.make_context(verb, arguments, parent=CONTEXT).params


def test_a_wrong_example_would_not_be_parsed() -> None:
    command = main.get_command(CONTEXT, "check")
    assert command is not None
    with pytest.raises(click.UsageError):
        command.make_context("check", ["--levle", "causal", "my_recordings"], parent=CONTEXT)
