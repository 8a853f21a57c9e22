"""Which tap goes into a module, by the graph of a golden: `slices.module_inputs`."""

from __future__ import annotations

import pytest

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.slices.module_inputs import tap_read_by
from qwen3_parity.slices.stored import graph_of

LAYER = "model.layers.1."


@pytest.mark.parametrize(
    ("case", "module", "tap"),
    [
        ("model/qwen3_moe", f"{LAYER}self_attn.o_proj", f"{LAYER}self_attn.context"),
        ("model/qwen3_moe", f"{LAYER}self_attn.k_norm", f"{LAYER}self_attn.k_proj"),
        ("model/qwen3_moe", f"{LAYER}input_layernorm", "model.layers.0"),
        ("model/qwen3_moe", f"{LAYER}mlp", f"{LAYER}post_attention_layernorm"),
        ("model/gemma3", f"{LAYER}post_feedforward_layernorm", f"{LAYER}mlp.down_proj"),
        ("model/gemma3", "lm_head", "model.norm"),
        ("model/gemma3", f"{LAYER}mlp.down_proj", ""),  # a product of two taps
        ("model/gemma3", f"{LAYER}pre_feedforward_layernorm", ""),  # a sum of two
        ("model/gemma3", f"{LAYER}self_attn", ""),  # hidden states, angles and a mask
        ("model/gemma3", "model.embed_tokens", ""),
        ("model/gemma3", "nothing", ""),
    ],
)
def test_a_module_reads_the_tap_before_it_whatever_shape_that_has(case: str, module: str, tap: str) -> None:
    golden = read(GOLDEN_ROOT / "cases" / f"{case}.pb")
    graph = graph_of(golden.graph, case)
    assert {tap_read_by(graph, module, step) for step in range(len(golden.case.steps))} == {tap}
