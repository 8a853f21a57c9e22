"""Filtered distributions alone, by Hugging Face's own processors: what whole runs meet by chance, made on purpose."""

from __future__ import annotations

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from qwen3_golden import Array
from qwen3_golden.op_table import OP_TABLE
from qwen3_reference.cases.op_case import OpCase
from qwen3_spec.ops.next_token_probs import Sampling


def _by_hf(logits: torch.Tensor, ids: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The processors that `generate()` would build, in its order."""
    chain: list[LogitsProcessor] = []
    if sampling.repetition_penalty != 1:
        chain.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.temperature != 1:
        chain.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        chain.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        chain.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        chain.append(MinPLogitsWarper(sampling.min_p))
    scores = logits.clone()
    for processor in chain:
        scores = processor(ids, scores)
    return scores.softmax(dim=-1)


def _case(name: str, sentence: str, logits: Array, sampling: Sampling, exposes: tuple[str, ...], ids: Array) -> OpCase:
    operands = torch.from_numpy(logits).float(), torch.from_numpy(ids)
    return OpCase(
        f"next_token_probs_{name}",
        "next_token_probs",
        sentence,
        operands,
        (_by_hf(*operands, sampling),),
        {number: float(getattr(sampling, number)) for number in OP_TABLE["next_token_probs"].kinds},
        exposes,
    )


def sampling_cases() -> list[OpCase]:
    """Every case of `next_token_probs`; drawn with PCG64, the same at each call."""
    draw = np.random.Generator(np.random.PCG64(7301))
    plain = draw.normal(0, 2, (2, 13))
    tied = plain.copy()
    tied[:, [3, 8]] = np.sort(plain, axis=1)[:, [-4]]  # the fourth largest three times
    mass = np.log(np.array([[0.41, 0.5, 0.09], [0.09, 0.41, 0.5]]))
    ids = np.array([[1, 4, 4, 9], [0, 12, 5, 5]])
    none = np.zeros((2, 0), np.int64)
    hot, cold = Sampling(temperature=2.0, top_p=0.9), Sampling(temperature=0.5, top_p=0.9)
    every = Sampling(1.3, 0.7, 8, 0.85, 0.1)
    halves = np.array([[np.log(2), 0.0, 0.0], [0.0, 0.0, np.log(2)]])
    powers = np.log(2) * np.array([[3.0, 2.0, 1.0, 1.0], [1.0, 3.0, 1.0, 2.0]])
    return [
        _case("penalty", "Negative logits among the tokens that were had; one was had twice.", plain - 1,
              Sampling(repetition_penalty=1.6), ("SMP-04", "SMP-05"), ids),
        _case("hot", "Temperature 2, then top-p 0.9.", plain, hot, ("SMP-08",), none),
        _case("cold", "Temperature 0.5, then top-p 0.9.", plain, cold, ("SMP-08",), none),
        _case("top_k", "The k-th largest three times: all of them stay.", tied, Sampling(top_k=4), ("SMP-02",), none),
        _case("top_p", "Of .5, .41 and .09 the second one crosses 0.9 and stays.", mass, Sampling(top_p=0.9),
              ("SMP-01",), none),
        _case("top_p_exact", "Probabilities .5, .25 and .25: the first one reaches 0.5 by itself.", halves,
              Sampling(top_p=0.5), ("SMP-02",), none),
        _case("top_p_zero", "A top-p of 0 leaves the largest one.", plain, Sampling(top_p=0.0), ("SMP-02",), none),
        _case("top_p_float32", "Of .5, .25, .125 and .125: 1 - top-p is not 0.25 but in float32, and the last two go.",
              powers, Sampling(top_p=0.75 + 1e-9), ("SMP-02",), none),
        _case("min_p_equal", "Just half of the largest one's probability is enough for a min-p of a half.", powers,
              Sampling(min_p=0.5), ("SMP-16",), none),
        _case("min_p", "At least a fifth of the largest one's probability.", plain, Sampling(min_p=0.2), (), none),
        _case("all", "Every filter, each on what the one before it left.", plain, every, ("SMP-08",), ids),
    ]  # fmt: skip
