"""Ports with mistakes, put right by doing what `next` of the JSON says and nothing else: each ends with exit code 0."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from test_cpp_port_bugs import BUGS, built

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.cli import main
from qwen3_parity.recording.record import record

ROOT = GOLDEN_ROOT.parent
STEPS = 12
"""Answers after which a walk goes in circles."""


def answer(command: str) -> dict[str, Any]:
    """What a command answers as JSON; it is run as it stands."""
    program, *arguments = shlex.split(command)
    assert program == "qwen3-parity"
    done = CliRunner().invoke(main, arguments)
    assert not isinstance(done.exception, Exception), done.output
    said = json.loads(done.stdout)
    assert isinstance(said, dict) and said["exit_code"] == done.exit_code
    return said


class Port(ABC):
    """What is wrong with a port still, and how its recording is made."""

    def __init__(self, folder: Path, mistakes: set[str]) -> None:
        self.folder, self.mistakes = folder, mistakes

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Make the recording, and what that says."""

    def answer(self, command: str) -> dict[str, Any]:
        """What the next command answers."""
        return answer(command)


def walked(port: Port) -> tuple[list[str], dict[str, Any]]:
    """The mistakes that were fixed, in order, and the last answer."""
    said, fixed = port.record(), list[str]()
    for _ in range(STEPS):
        following = said["next"]
        if following["do"] == "stop":
            return fixed, said
        if following["do"] == "fix":
            named = following["mistake"] or next(name for name in port.mistakes if name in following["says"])
            assert named in port.mistakes, following
            port.mistakes.remove(named)
            fixed.append(named)
        if following["again"]:
            port.record()
        said = port.answer(following["command"])
    pytest.fail(f"no end after {STEPS} steps: {said['next']}")


MODULE = """
import json, pathlib, sys
import torch
sys.path.insert(0, {wiring!r})
import plain_qwen3


class Added(plain_qwen3.Norm):
    def forward(self, x):
        return self.g * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.eps)


class Exchanged(plain_qwen3.Ffn):
    def forward(self, x):
        gate, up = self.w13(x).chunk(2, -1)
        return self.w2(torch.nn.functional.silu(up) * gate)


def build(case, directories):
    mistakes = json.loads(pathlib.Path({mistakes!r}).read_text())
    model = plain_qwen3.PlainQwen3(directories["decoder"], interleaved="rope.interleaved" in mistakes)
    for module in model.modules():
        if type(module) is plain_qwen3.Ffn and "mlp.gate_up_exchanged" in mistakes:
            module.__class__ = Exchanged
    return model
"""


class TorchModule(Port):
    """A PyTorch module with names of its own, recorded by hooks and a map."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"rope.interleaved", "mlp.gate_up_exchanged"})
        places = {"wiring": str(ROOT / "tests" / "tools" / "recording"), "mistakes": str(folder / "mistakes.json")}
        (folder / "a_port_in_torch.py").write_text(MODULE.format(**places), encoding="utf-8")
        self._tell()
        model = "decoder/plain --impl a_port_in_torch:build"
        answer(f"qwen3-parity match-names {model} --out {folder}/names.toml --json")

    def _tell(self) -> None:
        (self.folder / "mistakes.json").write_text(json.dumps(sorted(self.mistakes)), encoding="utf-8")

    def record(self) -> dict[str, Any]:
        self._tell()
        options = f"--impl a_port_in_torch:build --names {self.folder}/names.toml --out {self.folder}/mine.pb"
        return answer(f"qwen3-parity record decoder/plain {options} --json")


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """RoPE of neighbouring channels by the angles of halves."""
    pairs = np.stack((-x[..., 1::2], x[..., ::2]), axis=-1).reshape(x.shape)
    return x * cos[:, None] + pairs * sin[:, None]


def added(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """A norm whose weight is the difference from one."""
    return (1 + weight) * (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)))


class Dump(Port):
    """Arrays in a file, by the names of taps."""

    def __init__(self, folder: Path, port: Any, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, {"rope.mixed_layout", "norm.one_plus_weight"})
        self.port, self.patch = port, patch
        self.wrong = {"rope.mixed_layout": ("rotate", turned), "norm.one_plus_weight": ("rms_norm", added)}

    def record(self) -> dict[str, Any]:
        case = read(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb")
        with self.patch.context() as patch:
            for name in self.mistakes:
                patch.setattr(self.port, *self.wrong[name])
            record(case, self.folder / "run.pb", self.port.factory)
        taps = [item for item in read(self.folder / "run.pb") if not item.info.name.startswith("input.")]
        arrays = {f"{item.info.step}.{item.info.name}": item.array for item in taps}
        np.savez(self.folder / "dump.npz", **arrays)
        out = self.folder / "mine.pb"
        return answer(f"qwen3-parity dump import decoder/ragged_decode {self.folder}/dump.npz --out {out} --json")


class Process(Port):
    """A program that answers over a pipe; `mended` hears what is wrong with it before it is started again."""

    def __init__(
        self, folder: Path, mistakes: set[str], port: str, cases: str, mended: Callable[[set[str]], None]
    ) -> None:
        super().__init__(folder, mistakes)
        self.mended = mended
        self.command = f"qwen3-parity conformance {cases} --json --out {folder}/answers -- {port}"

    def record(self) -> dict[str, Any]:
        words = shlex.split(self.command)
        shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
        return self.answer(self.command)

    def answer(self, command: str) -> dict[str, Any]:
        if command.startswith("qwen3-parity conformance "):
            self.command = command
            self.mended(self.mistakes)
        return answer(command)


def test_a_port_in_python_is_put_right_by_what_next_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    port = TorchModule(tmp_path)
    fixed, said = walked(port)
    assert sorted(fixed) == ["mlp.gate_up_exchanged", "rope.interleaved"] and not port.mistakes
    assert (said["exit_code"], said["verdict"]) == (0, "parity")


@pytest.mark.slow
def test_a_dump_is_put_right_by_what_next_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import numpy_port

    fixed, said = walked(port := Dump(tmp_path, numpy_port, monkeypatch))
    assert sorted(fixed) == ["norm.one_plus_weight", "rope.mixed_layout"] and not port.mistakes
    assert (said["exit_code"], said["verdict"]) == (0, "parity")


PROCESS = """
import json, pathlib, sys
sys.path.insert(0, {examples!r})
import numpy as np
import numpy_port

mistakes = json.loads(pathlib.Path({mistakes!r}).read_text())


def outside(x, weight, eps):
    return weight * (x / (np.sqrt(np.mean(x * x, axis=-1, keepdims=True)) + np.float32(eps)))


if "norm.eps_outside_root" in mistakes:
    numpy_port.rms_norm = outside
import numpy_process

if "no weights today" in mistakes:
    numpy_process.operation = lambda op, *rest: sys.exit(print("no weights today", file=sys.stderr))
numpy_process.main()
"""


@pytest.mark.slow
def test_a_process_is_put_right_by_what_next_says(tmp_path: Path) -> None:
    program, mistakes = tmp_path / "port.py", tmp_path / "mistakes.json"
    places = {"examples": str(ROOT / "examples"), "mistakes": str(mistakes)}
    program.write_text(PROCESS.format(**places), encoding="utf-8")

    def mended(left: set[str]) -> None:
        mistakes.write_text(json.dumps(sorted(left)), encoding="utf-8")

    seeded, cases = {"no weights today", "norm.eps_outside_root"}, "--only 'op/rms_norm*' --only op/rope"
    fixed, said = walked(Process(tmp_path, seeded, f"{sys.executable} {program}", cases, mended))
    assert fixed == ["no weights today", "norm.eps_outside_root"]
    assert said["exit_code"] == 0 and len(said["cases"]) > 3


@pytest.mark.slow
@pytest.mark.parametrize("port", ["cpp"], indirect=True)
def test_a_port_in_cpp_is_put_right_by_what_next_says(port: Any, tmp_path: Path) -> None:
    program = tmp_path / "port"
    shutil.copy(built(BUGS["rope turns neighbours"], port.build, tmp_path), program)

    def mended(left: set[str]) -> None:
        if not left:
            shutil.copy(port.command[0], program)

    cases = "--only decoder/plain --only op/rope"
    fixed, said = walked(Process(tmp_path, {"rope.interleaved"}, f"{program} answer", cases, mended))
    assert fixed == ["rope.interleaved"] and said["exit_code"] == 0 and len(said["cases"]) == 2
