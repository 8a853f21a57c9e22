"""`parity` of an implementation with a mistake: the run ends with it, once, and each failure leads there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from qwen3_encdec.attention import ProjectedAttention
from qwen3_parity.cli import main

CASES = ("encoder/one_token", "encoder/ragged")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, dict[str, Any]]:
    """The folder, what was printed, and the JSON of a second run, with another eps in the norm of queries."""
    original, out = ProjectedAttention.__init__, tmp_path_factory.mktemp("red")

    def wrong(self: ProjectedAttention, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self.q_norm.variance_epsilon *= 10

    arguments = ["parity", "--out", str(out), *(word for name in CASES for word in ("--only", name))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProjectedAttention, "__init__", wrong)
        printed, plain = (CliRunner().invoke(main, [*arguments, *more]) for more in ([], ["--json"]))
    assert printed.exit_code == plain.exit_code == 1, printed.output
    return out, printed.stdout, json.loads(plain.stdout)


def test_a_red_run_ends_with_the_mistake_its_op_and_its_fix(ran: tuple[Path, str, dict[str, Any]]) -> None:
    _, text, _ = ran
    assert "one mistake is behind 2 of 2 red cases" in text
    after = text.partition("\nnorm.eps\n")[2]
    assert after.lstrip().startswith("it uses eps 1e-05 instead of 1e-06")
    assert "at encoder.layers.*.self_attn.q_norm" in after and "fix: read rms_norm_eps" in after
    assert text.count("norm.eps\n") == 1


def test_json_is_that_of_a_folder(ran: tuple[Path, str, dict[str, Any]]) -> None:
    out, _, said = ran
    folder = json.loads(CliRunner().invoke(main, ["check", str(out), "--json"]).stdout)
    assert said.keys() == folder.keys() and said["exit_code"] == folder["exit_code"] == 1
    assert [case["case"] for case in said["cases"]] == [case["case"] for case in folder["cases"]] == list(CASES)


def test_every_failure_leads_to_the_diagnosis(ran: tuple[Path, str, dict[str, Any]]) -> None:
    out, _, said = ran
    steps = {case["case"]: {problem["next_step"] for problem in case["problems"]} for case in said["cases"]}
    assert steps == {name: {f"qwen3-parity diagnose {out / name}.pb"} for name in CASES}
