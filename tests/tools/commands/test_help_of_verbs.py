"""Every verb's --help has examples, and they are commands that there are; --help lists the verbs in whole sentences."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from qwen3_parity.cli import main
from qwen3_parity.commands._verbs import SECTIONS

CONTEXT = click.Context(main, info_name="qwen3-parity")
VERBS = main.every_verb()
MOST = 15


def helped(*words: str) -> str:
    return CliRunner().invoke(main, [*words, "--help"], prog_name="qwen3-parity", terminal_width=120).output


def shown(verb: str) -> list[str]:
    """The examples of a verb, as --help prints them."""
    _, _, rest = helped(*verb.split()).partition("Examples:\n")
    return re.findall(r"^ +(qwen3-parity .*)$", rest, re.MULTILINE)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_has_some_examples_of_it(verb: str) -> None:
    examples = shown(verb)
    assert 1 <= len(examples) <= 4 and all(line.startswith(f"qwen3-parity {verb}") for line in examples)


@pytest.mark.parametrize("verb", VERBS)
def test_an_example_can_be_parsed(verb: str) -> None:
    for line in shown(verb):
        arguments = shlex.split(line)[1 + len(verb.split()) :]
        assert VERBS[verb].make_context(verb, arguments, parent=CONTEXT).params


def test_a_wrong_example_would_not_be_parsed() -> None:
    with pytest.raises(click.UsageError):
        VERBS["check"].make_context("check", ["--levle", "causal", "my_recordings"], parent=CONTEXT)


def test_there_are_at_most_fifteen_verbs_each_in_one_section() -> None:
    verbs = [verb for section in SECTIONS.values() for verb in section]
    assert sorted(verbs) == main.list_commands(CONTEXT) and len(verbs) <= MOST


@pytest.mark.parametrize("words", [(), ("weights",), ("dump",)], ids=" ".join)
@pytest.mark.parametrize("width", [60, 80, 200])
def test_help_lists_every_verb_with_a_whole_sentence(words: tuple[str, ...], width: int) -> None:
    text = CliRunner().invoke(main, [*words, "--help"], prog_name="qwen3-parity", terminal_width=width).output
    assert "..." not in text.partition("Options:")[2]
    listed = " ".join(text.split())
    for verb, command in VERBS.items():
        if verb.split()[:-1] == list(words):
            sentence = " ".join((command.help or "").split("\n\n")[0].split())
            assert f"{verb.split()[-1]} {sentence}" in listed and sentence.endswith(".")


def test_a_verb_that_is_mistyped_is_answered_with_the_nearest() -> None:
    for words, near in ((["chek"], "check"), (["weights", "exprot"], "export"), (["diagnos"], "diagnose")):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2 and f"did you mean {near}?" in done.output


@pytest.mark.parametrize("words", [["trace"], ["trace", "--help"], ["weights", "trace"], ["trace", "--json"]])
def test_a_verb_that_is_like_none_is_refused_in_a_sentence(words: list[str]) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "no command 'trace'" in done.output and "harness bug" not in done.output


@pytest.mark.parametrize("option", ["--model", "--out"])
def test_an_option_of_several_verbs_is_one_option(option: str) -> None:
    """--model is a checkpoint, a directory or an id of the hub; --out is a path that is written."""
    kinds = {
        verb: (type(parameter.type).__name__, parameter.metavar)
        for verb, command in VERBS.items()
        for parameter in command.params
        if option in parameter.opts
    }
    assert len(kinds) > 4 and len(set(kinds.values())) == 1, kinds


def test_what_takes_a_golden_takes_it_first() -> None:
    for verb, command in VERBS.items():
        arguments = [p.metavar or (p.name or "").upper() for p in command.params if isinstance(p, click.Argument)]
        words = " ".join(arguments)
        assert "GOLDEN" not in words or words.startswith(("GOLDEN", "[GOLDEN] CANDIDATE")), verb
