"""Qwen3-0.6B's exact shape by its own graph: captured, recorded under SDPA, judged; `make slow` prints what it took."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

import qwen3_parity
from qwen3_golden import read
from qwen3_parity.check import check
from qwen3_reference.graph.capture import capture

SHAPE = {
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
TOKENS = 24


@pytest.mark.slow
def test_a_real_size_is_captured_by_its_graph_and_honest_arithmetic_is_at_parity(tmp_path: Path) -> None:
    torch.manual_seed(0)
    rope = {"rope_theta": 1e6, "rope_type": "default"}
    model = Qwen3ForCausalLM(Qwen3Config(**SHAPE, tie_word_embeddings=True, rope_parameters=rope)).eval()
    ids = torch.randint(10, SHAPE["vocab_size"], (1, TOKENS))
    golden, mine, spent = tmp_path / "golden.pb", tmp_path / "mine.pb", [process_time()]
    capture(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, golden)
    spent.append(process_time())
    model.set_attn_implementation("sdpa")
    case = qwen3_parity.golden(golden)
    with torch.no_grad(), qwen3_parity.record(model, case, path=mine):
        model(**case.inputs)
    weights = {name: value.detach().numpy() for name, value in model.named_parameters(remove_duplicate=False)}
    spent.append(process_time())
    verdicts = check(read(golden), mine, weights)
    print(f"\ncapture {spent[1] - spent[0]:.0f} s of processor, check {process_time() - spent[2]:.0f} s")
    assert verdicts.word == "parity" and verdicts.judged == "run and ops", verdicts.problems[:2]
