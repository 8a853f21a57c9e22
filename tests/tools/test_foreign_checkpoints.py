"""Every command that takes a checkpoint calls another network, or another format, what it is."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.checkpoints.foreign import refuse_foreign
from qwen3_parity.cli import main

GOLDEN = str(GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb")
GEMMA = {"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "hidden_size": 8}
EXPERTS = {"model_type": "qwen3_moe", "num_experts": 128}
COMMANDS = {
    "capture": lambda model, out: ["capture", "--model", model, "--out", out, "--target-ids", "1,2"],
    "export": lambda model, out: ["export", "--model", model, "--out", out],
    "import": lambda model, out: ["import", model, "--out", out],
    "initialize": lambda model, out: ["initialize", "--qwen3-model", model, "--output-dir", out],
    "record": lambda model, out: ["record", GOLDEN, "--model", model, "--out", out],
    "diagnose": lambda model, out: ["diagnose", GOLDEN, GOLDEN, "--model", model],
}
CHECKPOINTS = {
    "gemma": "this is a Gemma checkpoint (model_type gemma)",
    "experts": "this is a Qwen3-MoE checkpoint (model_type qwen3_moe), a mixture of experts",
    "gguf": "this is a folder of GGUF files",
    "gguf/model.gguf": "this is a GGUF file",
}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A folder with one of each."""
    folder = tmp_path_factory.mktemp("foreign")
    for name, config in (("gemma", GEMMA), ("experts", EXPERTS)):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (folder / name / "model.safetensors").write_bytes(b"")
    (folder / "gguf").mkdir()
    (folder / "gguf" / "model.gguf").write_bytes(b"GGUF\x03\0\0\0")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_a_foreign_checkpoint_is_called_what_it_is(foreign, tmp_path, command, checkpoint):
    out = tmp_path / "out"
    result = CliRunner().invoke(main, COMMANDS[command](str(foreign / checkpoint), str(out)))
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        f"{foreign / checkpoint}: {CHECKPOINTS[checkpoint]}",
    )
    assert not out.exists()


def test_our_encoder_decoder_is_not_initialised_from_a_llama(tmp_path):
    llama = GOLDEN_ROOT / "checkpoints" / "llama3"
    result = CliRunner().invoke(main, COMMANDS["initialize"](str(llama), str(tmp_path / "out")))
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        f"{llama}: this is a Llama checkpoint (model_type llama)",
    )


def test_what_a_strangers_config_says_is_shown_without_control_characters(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "\x1b[31m" + "x" * 999}), encoding="utf-8")
    result = CliRunner().invoke(main, ["export", "--model", str(tmp_path), "--out", str(tmp_path / "out")])
    assert (result.exit_code, "\x1b" in result.stderr, len(result.stderr) < 1000) == (2, False, True)


@pytest.mark.parametrize("name", sorted(path.name for path in (GOLDEN_ROOT / "checkpoints").iterdir() if path.is_dir()))
def test_no_committed_checkpoint_is_foreign(name):
    refuse_foreign(GOLDEN_ROOT / "checkpoints" / name)
