"""Every command that takes a checkpoint calls another network, or another format, what it is."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, ParityError
from qwen3_parity.checkpoints.foreign import refuse_foreign
from qwen3_parity.cli import main
from qwen3_reference.cases.models import MODEL_CASES

GOLDEN = str(GOLDEN_ROOT / "cases" / "encoder" / "one_token.pb")
GEMMA = {"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "hidden_size": 8}
EXPERTS = {"model_type": "qwen3_moe", "num_experts": 128}
COMMANDS = {
    "capture": lambda model, out: ["capture", "--model", model, "--out", out, "--target-ids", "1,2"],
    "export": lambda model, out: ["weights", "export", "--model", model, "--out", out],
    "import": lambda model, out: ["weights", "import", model, "--out", out],
    "initialize": lambda model, out: ["weights", "initialize", "--model", model, "--out", out],
    "record": lambda model, out: ["record", GOLDEN, "--model", model, "--out", out],
    "diagnose": lambda model, out: ["diagnose", GOLDEN, GOLDEN, "--model", model],
}
CONFIGS = {
    "gemma": GEMMA,
    "experts": EXPERTS,
    "next": {"model_type": "qwen3_next", "num_experts": 512},
    "t5": {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]},
    "gpt2": {"model_type": "gpt2", "n_embd": 8},
    "own": {"model_type": "my_own_network"},
    "gptq": {"model_type": "qwen3", "quantization_config": {"quant_method": "gptq", "bits": 4}},
}
FILES = {
    "gguf": ("model.gguf", b"GGUF\x03\0\0\0"),
    "pickles": ("pytorch_model.bin", b"PK"),
    "onnx": ("model.onnx", b""),
    "bare": ("model.safetensors", b""),
}
CHECKPOINTS = {
    "gemma": "this is a Gemma checkpoint (model_type gemma), which is not supported",
    "experts": "this is a Qwen3-MoE checkpoint (model_type qwen3_moe), a mixture of experts, which is not supported",
    "next": "this is a Qwen3-Next checkpoint (model_type qwen3_next), a mixture of experts, which is not supported",
    "t5": "this is a T5 checkpoint (model_type t5), which is not supported",
    "gpt2": "this is a GPT-2 checkpoint (model_type gpt2), which is not supported",
    "own": "this is another network's checkpoint (model_type my_own_network), which is not supported",
    "gptq": "this is a quantised checkpoint (quant_method gptq), which is not supported",
    "gguf": "this is a folder of GGUF files",
    "gguf/model.gguf": "this is a GGUF file",
    "pickles": "this is a folder of PyTorch's pickles",
    "onnx": "this is a folder of ONNX files",
    "bare": "this is a folder of weights without config.json",
}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A folder with one of each."""
    folder = tmp_path_factory.mktemp("foreign")
    for name in {*CONFIGS, *FILES, "empty"}:
        (folder / name).mkdir()
    for name, config in CONFIGS.items():
        (folder / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (folder / name / "model.safetensors").write_bytes(b"")
    for name, (file, content) in FILES.items():
        (folder / name / file).write_bytes(content)
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
    assert "expected: a dense Qwen3 or Qwen2 " in result.stderr and "next: " in result.stderr


@pytest.mark.parametrize("command", ["check --text a --tokenizer", "weights export --out out --tokenizer"])
@pytest.mark.parametrize("checkpoint", ["gguf", "gguf/model.gguf", "t5", "empty"])
def test_a_tokenizer_that_is_not_there_is_said_before_any_is_loaded(foreign, command, checkpoint):
    result = CliRunner().invoke(main, [*command.split(), str(foreign / checkpoint)])
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        f"{foreign / checkpoint}: there is no tokenizer here",
    )


def test_our_encoder_decoder_is_not_initialised_from_a_llama(tmp_path):
    llama = GOLDEN_ROOT / "checkpoints" / "llama3"
    result = CliRunner().invoke(main, COMMANDS["initialize"](str(llama), str(tmp_path / "out")))
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        f"{llama}: this is a Llama checkpoint (model_type llama), which is not supported",
    )


def test_what_a_strangers_config_says_is_shown_without_control_characters(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "\x1b[31m" + "x" * 999}), encoding="utf-8")
    result = CliRunner().invoke(main, ["weights", "export", "--model", str(tmp_path), "--out", str(tmp_path / "out")])
    assert (result.exit_code, "\x1b" in result.stderr, len(result.stderr) < 1000) == (2, False, True)


@pytest.mark.parametrize("name", sorted(path.name for path in (GOLDEN_ROOT / "checkpoints").iterdir() if path.is_dir()))
def test_no_committed_checkpoint_is_foreign_but_those_of_other_models(name):
    if name not in {case.checkpoint for case in MODEL_CASES if case.family != "qwen3"}:
        refuse_foreign(GOLDEN_ROOT / "checkpoints" / name)
        return
    with pytest.raises(ParityError, match="is not supported"):
        refuse_foreign(GOLDEN_ROOT / "checkpoints" / name)
    refuse_foreign(GOLDEN_ROOT / "checkpoints" / name, None)
