"""Long runs without spaces take linear time: eight times the text, about eight times as long, not sixty-four."""

from collections.abc import Callable
from time import process_time
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
ONE_MEGABYTE_IN = 30.0  # Seconds of a slow machine; linear time is 0.1 to 1, quadratic time is hours.


def run(name: str, size: int) -> str:
    """About `size` bytes of UTF-8."""
    return RUNS[name] * (size // len(RUNS[name].encode()))


def seconds(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start


@pytest.mark.parametrize("name", RUNS)
def test_a_megabyte_without_spaces_is_encoded_in_linear_time(ours: ByteLevelTokenizer, name: str) -> None:
    small, large = run(name, MEGABYTE // 8), run(name, MEGABYTE)
    ours.encode(small)
    first = min(seconds(lambda: ours.encode(small)) for _ in range(3))
    second = seconds(lambda: ours.encode(large))
    assert second < ONE_MEGABYTE_IN
    assert second < 24 * first, f"{second:.2f} s for eight times what takes {first:.2f} s"


@pytest.mark.parametrize("name", ["a", "Chinese"])
def test_merging_by_definition_is_linear_too(ours: ByteLevelTokenizer, name: str) -> None:
    small, large = (to_symbols(run(name, size)) for size in (MEGABYTE // 32, MEGABYTE // 4))
    first = min(seconds(lambda: ours.merge(small)) for _ in range(3))
    second = seconds(lambda: ours.merge(large))
    assert second < 32 * first, f"{second:.2f} s for eight times what takes {first:.2f} s"


def test_a_megabyte_without_spaces_has_hugging_faces_ids(ours: ByteLevelTokenizer, hf: Any) -> None:
    for name in ("a", "Chinese"):
        text = run(name, MEGABYTE)
        assert ours.encode(text) == hf.backend_tokenizer.encode(text, add_special_tokens=False).ids, name
