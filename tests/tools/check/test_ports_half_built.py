"""A port in progress is judged on the layers and steps that it has, and told what its level still needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pattern_of, pb, read, write
from qwen3_parity.check import check_run
from qwen3_parity.cli import main

CASES = GOLDEN_ROOT / "cases"
NAME = "decoder/plain"
GOLDEN = read(CASES / f"{NAME}.pb")
LAST = len(GOLDEN.case.steps) - 1
Keep = Callable[[str, int], bool]


def outside_layers(name: str) -> bool:
    return "layers" not in name and name not in ("logits", "decoder.norm")


KEPT: dict[str, Keep] = {
    "layer 0": lambda name, step: "layers.0." in name or outside_layers(name),
    "step 0": lambda name, step: step == 0,
    "layer 0 of step 0": lambda name, step: step == 0 and ("layers.0." in name or outside_layers(name)),
    "some taps": lambda name, step: name.endswith("q_rope"),
    "a hole": lambda name, step: "layers.1." not in name,
    "no layer 2, but what follows": lambda name, step: "layers.2." not in name,
    "half of layer 1": lambda name, step: KEPT["layer 0"](name, step) or "layers.1.merged_attn" in name,
    "not step 1": lambda name, step: step != 1,
}


def part(portion: str, change: Callable[[Tensor], Tensor] = lambda tensor: tensor) -> Recording:
    """What is kept of the golden, every pattern of it declared."""
    tensors = [change(t) for t in GOLDEN if t.info.op == "input" or KEPT[portion](t.info.name, t.info.step)]
    run = pb.Run.FromString(GOLDEN.run.SerializeToString())
    run.materialised[:] = list(dict.fromkeys(pattern_of(t.info.name) for t in tensors))
    return replace(GOLDEN, tensors=tensors, run=run)


@pytest.mark.parametrize(
    ("portion", "unreached"),
    [
        ("layer 0", ["decoder.layers 1–2"]),
        ("step 0", [f"step 1–{LAST}"]),
        ("layer 0 of step 0", ["decoder.layers 1–2", f"step 1–{LAST}"]),
        ("some taps", []),
    ],
)
def test_what_is_there_is_judged_and_what_is_not_there_yet_is_said(portion: str, unreached: list[str]) -> None:
    verdicts = check_run(GOLDEN, part(portion), partial=True)
    assert (verdicts.word, verdicts.exit_code, list(verdicts.unreached)) == ("partial", 0, unreached)
    assert 0 < verdicts.compared < verdicts.of


def test_without_partial_what_was_declared_and_is_not_there_is_a_failure() -> None:
    verdicts = check_run(GOLDEN, part("layer 0"))
    assert verdicts.exit_code == 1 and {problem.rule for problem in verdicts.problems} == {"missing tap"}


@pytest.mark.parametrize("portion", ["a hole", "no layer 2, but what follows", "half of layer 1", "not step 1"])
def test_what_lacks_between_or_within_what_is_there_is_a_failure(portion: str) -> None:
    verdicts = check_run(GOLDEN, part(portion), partial=True)
    assert verdicts.exit_code == 1 and {problem.rule for problem in verdicts.problems} == {"missing tap"}


def test_what_is_there_may_be_wrong() -> None:
    def doubled(tensor: Tensor) -> Tensor:
        return Tensor(tensor.info, tensor.array * 2) if tensor.info.name.endswith("0.mlp.act") else tensor

    assert check_run(GOLDEN, part("layer 0", doubled), partial=True).word == "divergence"


def test_layers_that_are_behind_the_results_are_no_parity() -> None:
    whole = check_run(GOLDEN, GOLDEN)
    assert whole.word == "parity" and replace(whole, unreached=["decoder.layers 2"]).word == "partial"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("port")
    write(root / "plain.pb", part("layer 0"))
    write(root / "block.pb", read(CASES / "block" / "causal.pb"))
    return root


NEEDS = "decoder.layers 1–2, logits"


def test_a_recording_is_told_what_its_level_needs_of_it(folder: Path) -> None:
    assert f"level causal needs of this case, too: {NEEDS}" in run("check", folder / "plain.pb", "--partial").stdout


def test_without_partial_the_option_is_said(folder: Path) -> None:
    said = "nothing was delivered of decoder.layers 1–2: --partial judges what is there"
    assert said in run("check", folder / "plain.pb").stdout


def test_a_folder_is_told_what_its_level_needs(folder: Path) -> None:
    output = " ".join(run("check", folder, "--partial").stdout.split())
    assert "level causal, 1 of 8 cases: missing decoder/head_dim_64, " in output
    assert f"of {NAME} also {NEEDS}" in output


def test_json_says_what_is_next(folder: Path) -> None:
    said = json.loads(run("check", folder, "--partial", "--json").stdout)
    assert said["next_level"]["level"] == "reader" and len(said["next_level"]["needs"]) == 5
    assert [case["unreached"] for case in said["cases"]] == [[], ["decoder.layers 1–2"]]


def test_who_has_reached_all_that_was_begun_is_told_the_next_level(tmp_path: Path) -> None:
    for path in (CASES / "training").glob("*.pb"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert "next level: reader, which needs plumbing/" in run("check", tmp_path).stdout
