"""Long runs without spaces take linear time: eight times the text, about eight times the steps, not sixty-four."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from qwen3_encdec.tokenizer.byte_symbols import to_symbols
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

RUNS = {
    "a": "a",
    "ab": "ab",
    "Chinese": "我们的人民共和国万岁中文没有空格",
    "Thai": "ภาษาไทยไม่มีช่องว่าง",
    "zero bytes": "\0",
}
MEGABYTE = 1 << 20
SMALL, LARGE = 1 << 10, 1 << 13


def run(name: str, size: int) -> str:
    """About `size` bytes of UTF-8."""
    return RUNS[name] * (size // len(RUNS[name].encode()))


def steps(work: Callable[[], object]) -> int:
    """How often a line of Python begins: what a machine's pace does not change."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_steps_tell_linear_from_quadratic_time() -> None:
    def linear(size: int) -> None:
        for _ in range(size):
            pass

    def quadratic(size: int) -> None:
        for _ in range(size):
            linear(size)

    assert steps(lambda: linear(800)) < 10 * steps(lambda: linear(100))
    assert steps(lambda: quadratic(80)) > 40 * steps(lambda: quadratic(10))


@pytest.mark.parametrize("name", RUNS)
def test_text_without_spaces_is_encoded_in_linear_time(ours: ByteLevelTokenizer, name: str) -> None:
    small, large = run(name, SMALL), run(name, LARGE)
    ours.encode(small)  # what is remembered of its characters
    assert 500 < steps(lambda: ours.encode(large)) < 9 * steps(lambda: ours.encode(small))


@pytest.mark.parametrize("name", ["a", "Chinese"])
def test_merging_by_definition_is_linear_too(ours: ByteLevelTokenizer, name: str) -> None:
    small, large = (to_symbols(run(name, size)) for size in (SMALL, LARGE))
    assert 1000 < steps(lambda: ours.merge(large)) < 12 * steps(lambda: ours.merge(small))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", ["a", "Chinese"])
def test_a_megabyte_without_spaces_has_hugging_faces_ids(ours: ByteLevelTokenizer, hf: Any, name: str) -> None:
    text = run(name, MEGABYTE)
    assert ours.encode(text) == hf.backend_tokenizer.encode(text, add_special_tokens=False).ids
