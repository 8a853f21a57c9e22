"""What `--impl` names, and what a factory's model is handed.

It runs `recording.factories`, too.
"""

from __future__ import annotations

import pytest
import torch
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.cli import main
from qwen3_parity.recording.record import inputs_of

GOLDEN = GOLDEN_ROOT / "cases" / "op" / "rms_norm.pb"


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("json", "json:NAME_OF_THE_FUNCTION"),
        ("json:", "json:NAME_OF_THE_FUNCTION"),
        ("my_port.build", "my_port:build, or my_port.build:NAME_OF_THE_FUNCTION"),
    ],
)
def test_an_implementation_without_its_function_says_how_both_are_named(tmp_path, name, example):
    out = tmp_path / "out.pb"
    result = CliRunner().invoke(main, ["record", str(GOLDEN), "--impl", name, "--out", str(out)])
    assert (result.exit_code, out.exists()) == (2, False)
    assert "no factory is named" in result.stderr
    assert f"give --impl {example}" in result.stderr


def test_inputs_may_be_given_to_torch_and_changed_without_changing_the_golden():
    golden = read(GOLDEN)
    given = inputs_of(golden)["input.x"]
    torch.from_numpy(given).zero_()  # warns of what is read-only, and a warning is an error here
    assert golden["input.x", 0].array.any()
