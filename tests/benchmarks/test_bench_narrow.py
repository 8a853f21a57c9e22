"""What a decode step takes beside its products: as many layers as Qwen3-0.6B has, so narrow that these cost nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from model_speed import DEPTH, Pair, ratio
from ratios import report
from turns import token_by_token

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("threads")]
NARROW = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 192, "head_dim": 16}


def test_a_step_of_narrow_layers_is_as_fast_as_hugging_faces_qwen3s(
    benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    times = token_by_token(Pair(DEPTH, torch.float32, NARROW).decode(64, 60))
    benchmark.pedantic(int)
    figures = {"tokens a second, × HF's": ratio(times["hf"], times["ours"])}
    report(benchmark, capsys, "narrow layers", figures, at_least={"tokens a second, × HF's": 0.95})
