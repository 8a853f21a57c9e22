"""Names out of files are shown, never obeyed: neither as markup nor as what moves a terminal's cursor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, ParityError, read, tensor, write
from qwen3_parity.cli import main

GOLDEN = read(GOLDEN_ROOT / "cases" / "op" / "rms_norm.pb")
HOSTILE = "a[red]b[/nonsense]\x1b[2Jc\rd\x07\u202ee:smile:"
SHOWN = "a[red]b[/nonsense]\\x1b[2Jc\\rd\\x07\\u202ee:smile:"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "a.pb"
    extra = tensor(HOSTILE, np.zeros(2, np.float32), axes=(HOSTILE,))
    case = type(GOLDEN.case)()
    case.CopyFrom(GOLDEN.case)
    case.description = HOSTILE
    write(path, replace(GOLDEN, case=case, tensors=[*GOLDEN.tensors, extra]))
    return path


def harmless(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("command", ["show", "check", "diagnose"])
def test_a_command_shows_a_hostile_name_and_obeys_nothing(command: str, hostile: Path) -> None:
    done = CliRunner().invoke(main, [command, str(hostile)])
    assert done.exit_code in (0, 1) and not isinstance(done.exception, Exception)
    assert harmless(done.output) and "a[red]b[/nonsense]\\x1b[2Jc" in done.output.replace("\n", "")


def test_an_error_about_a_hostile_name_is_harmless() -> None:
    error = ParityError(HOSTILE, "no such tap", expected="a name", got=HOSTILE, next_step="look")
    assert harmless(str(error)) and str(error).count(SHOWN) == 2
