"""How fast the encoder–decoder is beside Hugging Face's models of the same shape, over the same weights, in one run.

Decoding is measured by its overhead: what a token takes in `generate()` above the bare products of its matrices with
one row, which both models need. Both see as many keys: ours the encoder's, HF's Qwen3 those of a prompt as long.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
import torch
from model_speed import DEPTH, EIGHTH, SHAPE, Pair, Work, ratio, t5gemma2, taking_turns
from transformers.modeling_outputs import BaseModelOutput
from turns import CORES, Clock, excludes, token_by_token

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("threads")]

SOURCE, NEW = 64, 60
MANY = 120
"""Tokens where little is to be told apart."""
RUNS = 5
"""Pairs of models, each with memory of its own, whose place there is worth a percent or two."""
FULL = pytest.param(DEPTH, marks=pytest.mark.slow)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
ALL_CORES = pytest.mark.parametrize("threads", [CORES], indirect=True, ids=["all_cores"])
ONE_AND_ALL = pytest.mark.parametrize("threads", [1, CORES], indirect=True, ids=["one_thread", "all_cores"])


def above(times: list[float], linear: list[float]) -> float:
    """Seconds of a token above the bare matrices whose turn was beside its own, the median."""
    return median(time - bare for time, bare in zip(times, linear, strict=True))


def told(benchmark: Any, capsys: pytest.CaptureFixture[str], figures: dict[str, float]) -> None:
    benchmark.pedantic(int)  # its figures are the ratios
    benchmark.extra_info.update(figures)
    with capsys.disabled():
        print("\n" + ", ".join(f"{name} {value:.3g}" for name, value in figures.items()))


def encoders(layers: int, dtype: torch.dtype, rounds: int) -> dict[str, list[float]]:
    """Seconds of our encoder and of HF's Qwen3 without a causal mask, on the same tokens; they agree on the states."""
    pair = Pair(layers, dtype)
    theirs = pair.hf.model
    theirs.config.is_causal = False
    for layer in theirs.layers:
        layer.self_attn.is_causal = False
    ids, mask = torch.arange(5, 133)[None], torch.ones(1, 128, dtype=torch.long)
    expected = theirs(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    actual = pair.ours.encoder(ids, mask).last_hidden_state
    assert float((actual - expected).abs().max()) < (1e-3 if dtype == torch.float32 else 0.3)
    works: dict[str, Work] = {
        "ours": lambda: pair.ours.encoder(ids, mask),
        "hf": lambda: theirs(input_ids=ids, attention_mask=mask, use_cache=False),
    }
    return taking_turns(works, rounds)


@pytest.mark.parametrize("layers", [EIGHTH, FULL])
@ONE_AND_ALL
@DTYPES
@torch.no_grad()
def test_encoding_is_as_fast_as_hugging_faces_qwen3(
    layers: int, threads: int, dtype: torch.dtype, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    count, rounds = (RUNS, 20) if dtype == torch.float32 else (2 * RUNS - 1, 30)  # whose products vary more
    found = []
    for _ in range(count):
        times = encoders(layers, dtype, rounds if layers == EIGHTH else rounds * 2 // 3)
        found.append(ratio(times["hf"], times["ours"]))
    told(benchmark, capsys, {"encoder, × HF's Qwen3": median(found), "lowest": min(found), "highest": max(found)})
    assert median(found) >= 1.0


@pytest.mark.parametrize("layers", [EIGHTH, FULL])
@DTYPES
def test_decoding_takes_less_above_its_matrices_than_hugging_faces_qwen3(
    layers: int, dtype: torch.dtype, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pair, new = Pair(layers, dtype), MANY if layers == EIGHTH else NEW
    times = token_by_token({**pair.decode(SOURCE, new), "linear": pair.linears(new)})
    ours, hf, linear = (times[name] for name in ("ours", "hf", "linear"))
    overhead = above(ours, linear) / above(hf, linear)
    read = sum(matrix.nbytes for matrix in pair.matrices) / 1e9
    figures = {
        "tokens a second, × HF's": ratio(hf, ours),
        "overhead, × HF's": overhead,
        "ours ms": 1e3 * median(ours),
        "HF's ms": 1e3 * median(hf),
        "linear ms": 1e3 * median(linear),
        "ours GB/s": read / median(ours),
        "linear GB/s": read / median(linear),
    }
    told(benchmark, capsys, figures)
    if dtype == torch.bfloat16:  # the products themselves are most of it, and their speed is the library's
        assert ratio(hf, ours) >= 1.0
    elif layers == DEPTH:
        assert overhead <= 0.6
    else:  # one thread reads the head for so long that a twentieth is on the edge: see below
        assert not excludes([a / b for a, b in zip(hf, ours, strict=True)], 1.05)


@ALL_CORES
def test_decoding_is_a_twentieth_faster_than_hugging_faces_qwen3(
    threads: int, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """What CI asks, on as many threads as `generate()` takes by itself."""
    found = []
    for _ in range(RUNS):
        times = token_by_token(Pair(EIGHTH, torch.float32).decode(SOURCE, NEW))
        found.append(ratio(times["hf"], times["ours"]))
    told(benchmark, capsys, {"tokens a second, × HF's": median(found), "lowest": min(found), "highest": max(found)})
    assert median(found) >= 1.05


@DTYPES
def test_decoding_is_as_fast_as_t5gemma2s(
    dtype: torch.dtype, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pair, other = Pair(EIGHTH, dtype), t5gemma2(EIGHTH, dtype)
    memory = torch.randn(1, SOURCE, SHAPE["hidden_size"]).to(dtype)
    start = torch.arange(5, 9)[None]

    fixed = {"min_new_tokens": NEW, "max_new_tokens": NEW, "do_sample": False, "decoder_start_token_id": 5}

    def theirs(clock: Clock) -> None:
        encoded = BaseModelOutput(last_hidden_state=memory)
        other.generate(encoder_outputs=encoded, decoder_input_ids=start, **fixed, streamer=clock)

    times = token_by_token({"ours": pair.decode(SOURCE, NEW)["ours"], "t5gemma2": theirs})
    found = ratio(times["t5gemma2"], times["ours"])
    told(benchmark, capsys, {"tokens a second, × T5Gemma 2's": found, "ms": 1e3 * median(times["ours"])})
    assert found >= 1.0
