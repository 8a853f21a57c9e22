"""Rules of the guide, each asked by one committed case: a port that breaks one is red there, and right without it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from qwen3_golden import GOLDEN_ROOT, Array, pb, read, to_bfloat16, to_float32
from qwen3_parity import Verdicts, check
from qwen3_parity.conformance.requests import request_for
from qwen3_parity.judge.candidates import golden_names
from qwen3_parity.recording.record import record

EXAMPLES = GOLDEN_ROOT.parent / "examples"
GOLDENS = golden_names()
OF_PORT = {
    "padding is penalised": ("numpy_port", "np.unique(one[kept]) for one, kept in zip(ids, real, strict=True)",
        "np.unique(one) for one in ids", "generation/penalty_padded"),
    "of equal logits the last one is chosen": ("numpy_port", "logits[:, -1].argmax(axis=-1)",
        "logits.shape[-1] - 1 - logits[:, -1, ::-1].argmax(axis=-1)", "generation/equal_logits"),
    "top-p is compared in float64": ("numpy_port", "before < filters.top_p",
        "before.astype(np.float64) < filters.top_p", "op/next_token_probs_top_p_float32"),
    "min-p removes what equals its bound": ("numpy_port", "probs >= np.float32(filters.min_p)",
        "probs > np.float32(filters.min_p)", "op/next_token_probs_min_p_equal"),
    "of a step's positions the first ones stay": ("numpy_process", "last_rows(value, spot, golden.case.rows)",
        "np.flip(last_rows(np.flip(value), spot, golden.case.rows))", "long/last_rows"),
    "every position of a step stays": ("numpy_process", "last_rows(value, spot, golden.case.rows)",
        "last_rows(value, spot, 0)", "long/last_rows"),
}  # fmt: skip
"""A broken rule: in which file of the NumPy port, by which change of its text, and the case that asks for it."""


def loaded(monkeypatch: pytest.MonkeyPatch, change: Mapping[str, tuple[str, str]]) -> ModuleType:
    """The NumPy port as a process, with `(right, wrong)` text in the files that `change` names."""
    for name in ("numpy_port", "numpy_process"):
        source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        right, wrong = change.get(name, ("", ""))
        assert not right or source.count(right) == 1
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(source.replace(right, wrong) if right else source, name, "exec"), module.__dict__)
    return sys.modules["numpy_process"]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Verdicts]:
    """`answered(case, change)`: the verdicts on what the changed port answers over the pipe."""

    def run(case: str, change: Mapping[str, tuple[str, str]]) -> Verdicts:
        answer: pb.ConformanceAnswer = loaded(monkeypatch, change).answer(request_for(case, GOLDENS))
        assert answer.recording, answer
        (tmp_path / "answer.pb").write_bytes(answer.recording)
        return check(GOLDENS[case], tmp_path / "answer.pb")

    return run


@pytest.mark.parametrize("case", dict.fromkeys(case for *_, case in OF_PORT.values()))
def test_the_port_keeps_the_rule(case: str, answered: Callable[..., Verdicts]) -> None:
    verdicts = answered(case, {})
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))


@pytest.mark.parametrize("rule", OF_PORT)
def test_a_port_that_breaks_a_rule_is_red_where_it_is_asked(rule: str, answered: Callable[..., Verdicts]) -> None:
    file, right, wrong, case = OF_PORT[rule]
    assert answered(case, {file: (right, wrong)}).exit_code == 1


def rounded(weight: Array) -> Array:
    return to_float32(to_bfloat16(weight))


def cut(weight: Array) -> Array:
    bits = np.ascontiguousarray(weight).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


@pytest.mark.parametrize(("narrowed", "code"), [(rounded, 0), (cut, 1)], ids=["rounded", "cut"])
@pytest.mark.parametrize("case", ["decoder/bfloat16", "llama/bfloat16"])
def test_weights_that_are_cut_to_bfloat16_are_red_and_rounded_ones_are_not(
    case: str, narrowed: Callable[[Array], Array], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(monkeypatch, {})
    golden = read(GOLDENS[case])
    name = golden.case.checkpoint[0].name
    shutil.copytree(GOLDEN_ROOT / "checkpoints" / name, tmp_path / name)
    weights = load_file(tmp_path / name / "model.safetensors")
    save_file({key: narrowed(one) for key, one in weights.items()}, tmp_path / name / "model.safetensors")
    record(golden, tmp_path / "port.pb", sys.modules["numpy_port"].factory, checkpoints=tmp_path)
    assert check(golden, tmp_path / "port.pb").exit_code == code
