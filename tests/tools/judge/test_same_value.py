"""What is one value of a golden's graph is recorded under any of its names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, read
from qwen3_parity.check import check
from qwen3_parity.judge.same_value import with_results

GOLDEN = GOLDEN_ROOT / "cases" / "model" / "gpt_oss.pb"


def without(*names: str) -> Recording:
    golden = read(GOLDEN)
    return replace(golden, tensors=[item for item in golden if item.info.name not in names])


@pytest.mark.parametrize(("left_out", "word"), [("logits", "parity"), ("lm_head", "parity")])
def test_logits_are_there_as_the_head_that_gives_them(left_out: str, word: str) -> None:
    assert check(GOLDEN, without(left_out)).word == word
    assert check(GOLDEN, without("logits", "lm_head")).word == "partial"


def test_a_head_that_is_wrong_is_wrong_logits() -> None:
    head = without("logits")
    tensors = [
        Tensor(item.info, item.array * np.float32(2 if item.info.name == "lm_head" else 1))
        for item in head
        if not item.info.name.startswith("input.")
    ]
    verdicts = check(GOLDEN, replace(head, tensors=tensors))
    assert {tap.name for tap in verdicts.taps if not tap.passed} == {"logits", "lm_head"}


def test_nothing_else_is_added() -> None:
    few = without("logits", "lm_head", "model")
    assert with_results(few, read(GOLDEN)) is few
