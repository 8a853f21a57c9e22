"""Dumps of NumPy's and safetensors are read where PyTorch is not installed; SGLang's say what they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from qwen3_parity import Case

WITHOUT = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
from qwen3_parity.cli import main
main()
"""


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_numpys_and_safetensors_are_read_without_it(ending: str, case: Case, tmp_path: Path) -> None:
    steps = [item.array for item in case.golden if item.info.name == "logits"]
    dump = {"lm_head": np.concatenate(steps, axis=1)}
    save_file(dump, tmp_path / "dump.safetensors")
    np.savez(tmp_path / "dump.npz", **dump)
    done = run("dump", "import", "decoder/plain", tmp_path / f"dump.{ending}", "--out", tmp_path / "x.pb")
    assert done.returncode == 0 and "5 tensors from 1 arrays" in done.stdout, done.stderr
    back = run("dump", "export", tmp_path / "x.pb", "--out", tmp_path / f"back.{ending}")
    assert back.returncode == 0 and (tmp_path / f"back.{ending}").is_file(), back.stderr
    names = run("match-names", "decoder/plain", tmp_path / f"dump.{ending}", "--out", tmp_path / "names.toml")
    assert names.returncode == 0 and '"lm_head" = "logits"' in names.stdout, names.stderr


def test_sglangs_need_an_extra_and_say_which(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    with (tmp_path / "dump" / "name=logits___step=0.pt").open("wb") as file:
        np.savez(file, x=np.zeros(1))  # an archive, as torch's files are
    done = run("dump", "import", "decoder/plain", tmp_path / "dump", "--out", tmp_path / "x.pb")
    assert done.returncode == 2 and "qwen3-parity[torch]" in done.stderr and "Traceback" not in done.stderr
