"""How fast text becomes ids on the real Qwen3 vocabulary, beside Hugging Face's Rust tokenizer and naive merging.

Ratios within one run, on one thread and the same text: the Universal Declaration of Human Rights in 40 languages, or
this project's Python source. Rounds take turns, and medians are compared. Cold: a fresh tokenizer on either
side for each round, nothing cached; making it is not timed. Warm: each has seen the text before. Hugging Face is its
backend's `encode` or, where that is faster, `encode_batch_fast`, which leaves offsets out.

Naive merging counts all pairs of the text anew before each merge; its easier kind takes one pre-token at a time. Both
split by the same pattern, give the same ids, and remember nothing.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from ratios import report
from transformers import AutoTokenizer

from qwen3_encdec.tokenizer.files import TokenizerFiles, read_directory
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

pytestmark = pytest.mark.bench

ROUNDS = 5
Encode = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def data(monkeypatch_module: pytest.MonkeyPatch) -> Path:
    folder = os.environ.get("QWEN3_PARITY_DATA")
    if not folder:
        pytest.skip("QWEN3_PARITY_DATA is not set: the real Qwen3 vocabulary is not here")
    return Path(folder)


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    """One thread for Hugging Face."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        patch.setenv("RAYON_NUM_THREADS", "1")
        yield patch


@pytest.fixture(scope="module")
def files(data: Path) -> TokenizerFiles:
    return read_directory(data / "qwen3-tokenizer")


@pytest.fixture(scope="module", params=["languages", "code"])
def texts(request: pytest.FixtureRequest, data: Path) -> list[str]:
    if request.param == "languages":
        lines = (data / "texts" / "udhr.jsonl").read_text(encoding="utf-8").split("\n")
        return [json.loads(line)["text"] for line in lines if line]
    root = Path(__file__).parents[2]
    return [path.read_text(encoding="utf-8") for path in sorted(root.glob("*/**/*.py")) if ".venv" not in path.parts]


def theirs(data: Path) -> dict[str, Encode]:
    """Hugging Face's two ways, with nothing cached."""

    def fresh() -> Any:
        return AutoTokenizer.from_pretrained(data / "qwen3-tokenizer").backend_tokenizer

    plain, fast = fresh(), fresh()
    return {
        "encode": lambda text: list(plain.encode(text, add_special_tokens=False).ids),
        "encode_batch_fast": lambda text: list(fast.encode_batch_fast([text], add_special_tokens=False)[0].ids),
    }


def naive(files: TokenizerFiles, tokenizer: ByteLevelTokenizer, whole_text: bool) -> Encode:
    ids, ranks = files.vocabulary, {pair: rank for rank, pair in enumerate(files.merges)}
    never = len(ranks)

    def merged(pieces: list[str], best: tuple[str, str]) -> list[str]:
        joined, place = [], 0
        while place < len(pieces):
            here = tuple(pieces[place : place + 2]) == best
            joined.append("".join(best) if here else pieces[place])
            place += 2 if here else 1
        return joined

    def merge_all(words: list[list[str]]) -> list[int]:
        while counts := Counter(pair for pieces in words for pair in pairwise(pieces)):
            best = min(counts, key=lambda pair: ranks.get(pair, never))
            if best not in ranks:
                break
            words = [merged(pieces, best) for pieces in words]
        return [ids[piece] for pieces in words for piece in pieces]

    def encode(text: str) -> list[int]:
        words = [list(tokenizer.to_symbols(word)) for word in tokenizer.pre_tokenize(tokenizer.normalize(text))]
        return merge_all(words) if whole_text else [id for word in words for id in merge_all([word])]

    return encode


def seconds(encode: Encode, texts: list[str]) -> float:
    start = perf_counter()
    for text in texts:
        encode(text)
    return perf_counter() - start


def size(texts: list[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def say(
    benchmark: Any,
    capsys: pytest.CaptureFixture[str],
    title: str,
    ours: float,
    others: dict[str, float],
    texts: list[str],
    hoped: float,
) -> None:
    figures = {f"{name} MB/s": size(texts) / 1e6 / taken for name, taken in {"ours": ours, **others}.items()}
    figures["× the faster"] = min(others.values()) / ours
    report(benchmark, capsys, title, figures, at_least={"× the faster": hoped})


@pytest.mark.benchmark(group="tokenizer-warm")
def test_warm_it_is_twice_as_fast_as_hugging_faces(
    data: Path,
    files: TokenizerFiles,
    texts: list[str],
    benchmark: BenchmarkFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokenizer = ByteLevelTokenizer(files)
    works: dict[str, Encode] = {"ours": tokenizer.encode, **theirs(data)}
    for text in texts:
        assert works["ours"](text) == works["encode"](text) == works["encode_batch_fast"](text)
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, encode in works.items():
            times[name].append(seconds(encode, texts))
    benchmark.pedantic(seconds, args=(tokenizer.encode, texts), rounds=ROUNDS)
    medians = {name: median(taken) for name, taken in times.items()}
    ours = medians.pop("ours")
    say(benchmark, capsys, "warm", ours, medians, texts, hoped=2)


@pytest.mark.benchmark(group="tokenizer-cold")
def test_cold_it_is_as_fast_as_hugging_faces(
    data: Path,
    files: TokenizerFiles,
    texts: list[str],
    benchmark: BenchmarkFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    times: dict[str, list[float]] = {}

    def fresh() -> tuple[tuple[Encode, list[str]], dict[str, Any]]:
        for name, encode in theirs(data).items():
            times.setdefault(name, []).append(seconds(encode, texts))
        return (ByteLevelTokenizer(files).encode, texts), {}

    benchmark.pedantic(seconds, setup=fresh, rounds=ROUNDS)
    ours, medians = benchmark.stats.stats.median, {name: median(taken) for name, taken in times.items()}
    say(benchmark, capsys, "cold", ours, medians, texts, hoped=1)


@pytest.mark.parametrize(("whole_text", "times_as_fast"), [(True, 100), (False, 20)])
@pytest.mark.benchmark(group="tokenizer-naive")
def test_it_is_many_times_as_fast_as_naive_merging(
    files: TokenizerFiles,
    texts: list[str],
    whole_text: bool,
    times_as_fast: int,
    benchmark: BenchmarkFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokenizer = ByteLevelTokenizer(files)
    slow = naive(files, tokenizer, whole_text)
    parts = [text[:1000] for text in texts[:40] if "<|" not in text]
    for text in parts:
        assert tokenizer.encode(text) == slow(text)
    taken = median(seconds(slow, parts) for _ in range(3))
    benchmark.pedantic(seconds, args=(tokenizer.encode, parts), rounds=20)
    ours = benchmark.stats.stats.median
    title = "naive, " + ("the whole text" if whole_text else "each pre-token")
    say(benchmark, capsys, title, ours, {"naive": taken}, parts, hoped=times_as_fast)
