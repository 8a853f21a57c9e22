"""match-names proposes which module holds which tap: by numbers, by weights, by place, and says how sure it is."""

import tomllib
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from plain_qwen3 import PlainQwen3
from torch import nn

import qwen3_parity
from qwen3_parity import Case
from qwen3_parity.cli import main
from qwen3_parity.recording.match_names import match_names
from qwen3_parity.recording.matches import Match, as_toml

CASE = "decoder/plain"
FACTORY = """\
from pathlib import Path
import sys
sys.path.insert(0, {folder!r})
from plain_qwen3 import PlainQwen3

def build(case, checkpoints):
    return PlainQwen3(checkpoints["decoder"], interleaved={interleaved})

def nothing(case, checkpoints):
    return 3
"""


@pytest.fixture(scope="module")
def case() -> Case:
    return qwen3_parity.golden(CASE)


@pytest.fixture(scope="module")
def right(case: Case) -> dict[str, Match]:
    return by_tap(PlainQwen3(case.checkpoint), case)


@pytest.fixture(scope="module")
def wrong(case: Case) -> dict[str, Match]:
    return by_tap(PlainQwen3(case.checkpoint, interleaved=True), case)


def by_tap(model: nn.Module, case: Case) -> dict[str, Match]:
    found, missing = match_names(model, case)
    assert not missing
    return {pattern.rpartition(".")[2]: match for match in found for pattern in match.named.patterns}


def test_what_agrees_in_every_layer_is_certain(right: dict[str, Match]) -> None:
    assert {match.sure for match in right.values()} == {3}
    assert right["o_proj"].named.path == "blocks.{layer}.mix.wo"
    assert right["act"].named.key == "blocks.{layer}.ffn.w2:input"


def test_fused_products_are_found_with_the_order_of_their_parts(right: dict[str, Match]) -> None:
    ends = [pattern.rpartition(".")[2] for pattern in right["k_proj"].named.patterns]
    assert ends == ["q_proj", "k_proj", "v_proj"]
    assert right["up_proj"].named.path == "blocks.{layer}.ffn.w13"


def test_a_mistake_hides_no_module(right: dict[str, Match], wrong: dict[str, Match]) -> None:
    assert {tap: match.named for tap, match in wrong.items()} == {tap: match.named for tap, match in right.items()}


def test_behind_a_mistake_it_says_why_it_thinks_so(wrong: dict[str, Match]) -> None:
    assert wrong["embed_tokens"].sure == 3
    assert (wrong["q_norm"].sure, wrong["q_norm"].why) == (2, "agrees in 1 of 3 layers")
    assert (wrong["o_proj"].sure, wrong["o_proj"].why) == (2, "holds the checkpoint's weight")
    assert (wrong["up_proj"].sure, wrong["up_proj"].why) == (2, "holds the checkpoint's weights, side by side")
    assert (wrong["act"].sure, wrong["output"].sure) == (1, 2)


def test_a_module_that_is_known_by_nothing_but_its_shape_is_a_guess(case: Case) -> None:
    model = PlainQwen3(case.checkpoint, interleaved=True)
    torch.manual_seed(0)
    for block in model.blocks:
        nn.init.normal_(block.mix.wo.weight)
    found = by_tap(model, case)
    assert (found["o_proj"].named.path, found["o_proj"].sure) == ("blocks.{layer}.mix.wo", 0)


def test_keys_that_take_turns_with_queries_are_found_in_their_groups(case: Case) -> None:
    model = PlainQwen3(case.checkpoint)

    class Turns(nn.Module):
        """[q q q k v] for each KV head, as Megatron has them."""

        def __init__(self, plain: nn.Linear) -> None:
            super().__init__()
            q, k, v = (one.view(2, -1, 40) for one in plain.weight.split([60, 20, 20]))
            self.weight = nn.Parameter(torch.cat([q, k, v], 1).reshape(100, 40), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight.T

    class Unturned(nn.Module):
        def __init__(self, plain: nn.Linear) -> None:
            super().__init__()
            self.fused = Turns(plain)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.fused(x).unflatten(-1, (2, 50)).split([30, 10, 10], -1)
            return torch.cat([one.flatten(-2) for one in (q, k, v)], -1)

    for block in model.blocks:
        block.mix.wqkv = Unturned(block.mix.wqkv)
    found = {match.named.path: match.named for match in match_names(model, case)[0]}
    wanted = found.get("blocks.{layer}.mix.wqkv.fused") or found["blocks.{layer}.mix.wqkv"]
    assert wanted.groups == ("kv_heads" if wanted.path.endswith("fused") else "")


def test_the_file_is_a_name_map(case: Case, wrong: dict[str, Match], tmp_path: Path) -> None:
    text = as_toml(list({id(match): match for match in wrong.values()}.values()))
    assert tomllib.loads(text)["blocks.{layer}.mix.wqkv"] == ["q_proj", "k_proj", "v_proj"]
    assert "# likely: goes into blocks.{layer}.ffn.w2" in text


def test_a_plain_model_is_wired_and_its_interleaved_rotation_named(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file in the current folder to the mistake's name, with no line of ours in the model."""
    folder = str(Path(__file__).parent)
    (tmp_path / "own_model_here.py").write_text(FACTORY.format(folder=folder, interleaved=True))
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    proposed = run(main, ["match-names", CASE, "--impl", "own_model_here:build"])
    assert proposed.exit_code == 0, proposed.output
    assert "sure: holds the checkpoint's weight" in proposed.output
    assert run(main, ["record", CASE, "--impl", "own_model_here:build", "--names", "names.toml"]).exit_code == 0
    assert "rope.interleaved" in run(main, ["diagnose", f"build/parity/{CASE}.pb"]).output

    model = PlainQwen3(case.checkpoint, interleaved=True)  # and the same in Python
    with qwen3_parity.record(model, case, names="names.toml") as recording:
        model(case.inputs["input_ids"])
    assert {fault.name for fault in qwen3_parity.diagnose(case, recording).faults} == {"rope.interleaved"}


def test_a_factory_of_no_module_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_nothing_here.py").write_text(FACTORY.format(folder=str(Path(__file__).parent), interleaved=False))
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(main, ["match-names", CASE, "--impl", "own_nothing_here:nothing"])
    assert refused.exit_code == 2 and "builds no torch module" in refused.output
