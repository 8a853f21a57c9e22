"""What needs neither PyTorch nor Hugging Face does not wait for them: they take seconds to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.checkpoints.export_weights import export_weights

CASES = GOLDEN_ROOT / "cases"
OP = str(CASES / "op" / "context.pb")
MODEL = str(CASES / "encdec" / "ragged.pb")
PLAIN = str(CASES / "decoder" / "plain.pb")
CLASSIC = str(next((CASES / "classic").glob("*.pb")))
HEAVY = ("torch", "transformers", "tokenizers", "accelerate", "safetensors", "huggingface_hub", "qwen3_encdec")
AT_THE_END = f"""
import atexit, sys
atexit.register(lambda: print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr))
"""
COMMAND = "from qwen3_parity.cli import main; main()"


def imported(code: str, *arguments: str) -> list[str]:
    """The heavy packages that were imported when the code had run."""
    command = [sys.executable, "-c", AT_THE_END + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1].split()


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    "arguments",
    [
        *(("--help",), ("parity", "--help"), ("show", MODEL), ("check", OP, OP), ("diagnose", OP, OP)),
        *(("check", MODEL, MODEL), ("diagnose", MODEL, MODEL), ("check", CLASSIC, CLASSIC)),
    ],
    ids=lambda words: " ".join(word.rsplit("/", 1)[-1] for word in words),
)
def test_a_command_on_files_imports_no_framework(arguments: tuple[str, ...]) -> None:
    assert imported(COMMAND, *arguments) == []


WITHOUT = f"""
import importlib.abc, importlib.metadata, sys

class NotInstalled(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def version(name, of=importlib.metadata.version):
    if name in {HEAVY}:
        raise importlib.metadata.PackageNotFoundError(name)
    return of(name)

sys.meta_path.insert(0, NotInstalled())
importlib.metadata.version = version
"""


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("model", ["safetensors", "exported"])
@pytest.mark.parametrize("command", ["check", "diagnose"])
def test_a_network_is_judged_where_no_framework_is_installed(command: str, model: str, tmp_path: Path) -> None:
    options = []
    if model == "exported":
        export_weights(GOLDEN_ROOT / "checkpoints" / "tied-decoder", tmp_path / "x", "tied-decoder", 1 << 30)
        options = ["--model", str(tmp_path / "x")]
    arguments = [sys.executable, "-c", WITHOUT + COMMAND, command, PLAIN, PLAIN, *options]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "run and ops" in done.stdout and "parity" in done.stdout


def test_nothing_can_be_recorded_there() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + COMMAND, "record", PLAIN], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "pip install 'qwen3-parity[torch]'" in done.stderr, done.stderr


def test_the_pytest_plugin_costs_others_nothing() -> None:
    assert imported("import qwen3_parity.plugin") == []


def test_the_same_question_sees_a_package() -> None:
    assert "transformers" in imported("import transformers")
