"""What a decode step takes beside its products, where these cost nothing: as many layers as Qwen3-0.6B has, but narrow.

Hardly any memory is read, so that other work on the machine does not show: CI can ask for it.
"""

from __future__ import annotations

import pytest
import torch
from model_speed import DEPTH, Pair
from turns import excludes, token_by_token

from qwen3_encdec import modeling_qwen3_decoder

pytestmark = pytest.mark.usefixtures("threads")
NARROW = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 192, "head_dim": 16}
OVERHEAD = 0.6


def ratios() -> list[float]:
    times = token_by_token(Pair(DEPTH, torch.float32, NARROW).decode(64, 60))
    return [theirs / ours for theirs, ours in zip(times["hf"], times["ours"], strict=True)]


def test_a_step_of_narrow_layers_takes_at_most_six_tenths_of_hugging_faces_qwen3s() -> None:
    assert not excludes(ratios(), 1 / OVERHEAD)


def test_calling_the_modules_would_take_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling_qwen3_decoder, "decode_row", lambda *given: None)
    assert excludes(ratios(), 1 / OVERHEAD)
