"""Third parties' engines of plain torch modules, unmodified, where they are installed: examples/engines."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from qwen3_golden import GOLDEN_ROOT

EXAMPLES = GOLDEN_ROOT.parent / "examples" / "engines"
ENGINES = {"litgpt_qwen3": "litgpt", "llms_from_scratch_qwen3": "llms_from_scratch"}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("judge")


def adapter(name: str) -> ModuleType:
    pytest.importorskip(ENGINES[name], reason=f"{ENGINES[name]} is not installed: see examples/engines/README.md")
    return importlib.import_module(name)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_of_torch_modules_is_parity_and_nothing_in_it_is_blamed(
    name: str, judge: ModuleType, tmp_path: Path
) -> None:
    row = judge.judged(adapter(name), GOLDEN_ROOT / "cases/decoder/plain_two_rows.pb", tmp_path)
    assert (row["word"], row["blamed"], row["problems"]) == ("parity", [], 0)


@pytest.mark.slow
def test_an_eps_written_into_the_code_is_named(judge: ModuleType, tmp_path: Path) -> None:
    row = judge.judged(adapter("llms_from_scratch_qwen3"), GOLDEN_ROOT / "cases/long/deep.pb", tmp_path)
    assert row["word"] == "divergence"
    assert {blamed.split(": ")[1] for blamed in row["blamed"]} == {"norm.eps"}


def test_a_feature_that_an_engine_lacks_is_said_and_not_failed(judge: ModuleType, tmp_path: Path) -> None:
    engine = ModuleType("engine")
    engine.PACKAGE, engine.HAS = "qwen3-parity", {"qk_norm", "window"}  # type: ignore[attr-defined]
    row = judge.judged(engine, GOLDEN_ROOT / "cases/decoder/window_even.pb", tmp_path)
    assert row["lacks"] == ["padding"] and "window_even (padding)" in judge.table([row])
