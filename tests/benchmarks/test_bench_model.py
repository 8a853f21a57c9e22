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
from ratios import report
from transformers.modeling_outputs import BaseModelOutput
from turns import CORES, Clock, token_by_token

pytestmark = [pytest.mark.bench, pytest.mark.usefixtures("threads")]

SOURCE, NEW = 64, 60
MANY = 120
"""Tokens where little is to be told apart."""
RUNS = 5
"""Pairs of models, each with memory of its own, whose place there is worth a percent or two."""
LAYERS = pytest.mark.parametrize("layers", [EIGHTH, DEPTH])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
ONE_AND_ALL = pytest.mark.parametrize("threads", [1, CORES], indirect=True, ids=["one_thread", "all_cores"])


def above(times: list[float], linear: list[float]) -> float:
    """Seconds of a token above the bare matrices whose turn was beside its own, the median."""
    return median(time - bare for time, bare in zip(times, linear, strict=True))


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


@LAYERS
@ONE_AND_ALL
@DTYPES
@torch.no_grad()
def test_encoding_is_as_fast_as_hugging_faces_qwen3(
    layers: int, threads: int, dtype: torch.dtype, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    count, rounds = (RUNS, 20) if dtype == torch.float32 else (2 * RUNS - 1, 30)  # whose products vary more
    measured = []
    for _ in range(count):
        times = encoders(layers, dtype, rounds if layers == EIGHTH else rounds * 2 // 3)
        measured.append(ratio(times["hf"], times["ours"]))
    benchmark.pedantic(int)  # its figures are the ratios
    figures = {"× HF's Qwen3": median(measured), "lowest": min(measured), "highest": max(measured)}
    report(benchmark, capsys, "encoder", figures, at_least={"× HF's Qwen3": 1.0})


@LAYERS
@ONE_AND_ALL
@DTYPES
def test_decoding_is_as_fast_as_hugging_faces_qwen3(
    layers: int, threads: int, dtype: torch.dtype, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pair, new = Pair(layers, dtype), MANY if layers == EIGHTH else NEW
    times = token_by_token({**pair.decode(SOURCE, new), "linear": pair.linears(new)})
    ours, hf, linear = (times[name] for name in ("ours", "hf", "linear"))
    read = sum(matrix.nbytes for matrix in pair.matrices) / 1e9
    benchmark.pedantic(int)
    figures = {
        "tokens a second, × HF's": ratio(hf, ours),
        "overhead, × HF's": above(ours, linear) / above(hf, linear),
        "ours ms": 1e3 * median(ours),
        "HF's ms": 1e3 * median(hf),
        "linear ms": 1e3 * median(linear),
        "ours GB/s": read / median(ours),
        "linear GB/s": read / median(linear),
    }
    report(benchmark, capsys, "decoding", figures, at_least={"tokens a second, × HF's": 0.95})


@DTYPES
def test_decoding_is_as_fast_as_t5gemma2s(
    dtype: torch.dtype, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pair, rival = Pair(EIGHTH, dtype), t5gemma2(EIGHTH, dtype)
    memory = torch.randn(1, SOURCE, SHAPE["hidden_size"]).to(dtype)
    start = torch.arange(5, 9)[None]

    fixed = {"min_new_tokens": NEW, "max_new_tokens": NEW, "do_sample": False, "decoder_start_token_id": 5}

    def theirs(clock: Clock) -> None:
        encoded = BaseModelOutput(last_hidden_state=memory)
        rival.generate(encoder_outputs=encoded, decoder_input_ids=start, **fixed, streamer=clock)

    times = token_by_token({"ours": pair.decode(SOURCE, NEW)["ours"], "t5gemma2": theirs})
    benchmark.pedantic(int)
    name = "tokens a second, × T5Gemma 2's"
    figures = {name: ratio(times["t5gemma2"], times["ours"]), "ms": 1e3 * median(times["ours"])}
    report(benchmark, capsys, "decoding", figures, at_least={name: 1.0})
