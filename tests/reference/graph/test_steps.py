"""A decoder without a cache reads its text in one forward, every other goes on from its states, encoders' too."""

from __future__ import annotations

from pathlib import Path

import pytest

from qwen3_golden import read
from qwen3_reference.graph.steps import generates, goes_on
from qwen3_reference.graph.tiny import tiny_inputs, tiny_model, write_tiny


@pytest.mark.parametrize(("family", "cached"), [("openai-gpt", False), ("gpt2", True), ("mamba", True)])
def test_a_decoder_goes_on_where_it_takes_a_cache(family: str, *, cached: bool) -> None:
    model = tiny_model(family)
    assert generates(model) and goes_on(model) == cached
    inputs, lengths = tiny_inputs(model, 1)
    assert lengths == ((7, 1, 1) if cached else ())
    assert inputs["input_ids"].shape == (2, 9) and not inputs["attention_mask"][0, :3].any()  # padded on the left


@pytest.mark.slow  # an export
def test_a_decoder_without_a_cache_is_captured_in_a_forward(tmp_path: Path) -> None:
    golden = read(write_tiny("openai-gpt", tmp_path / "it", floors=False))
    assert list(golden.case.steps) == [9] and golden["logits", 0].array.shape[:2] == (2, 9)


@pytest.mark.slow  # an export
def test_a_decoder_of_experts_goes_on_from_its_encoders_result(tmp_path: Path) -> None:
    golden = read(write_tiny("nllb-moe", tmp_path / "it", floors=False))
    assert list(golden.case.steps) == [2, 1, 1] and golden["logits", 2].array.shape[:2] == (2, 1)
