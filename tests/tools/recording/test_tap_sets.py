"""What a set of taps has of a golden with a graph: modules below a layer, as families call them."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from qwen3_parity.recording.tap_sets import OF_GRAPHS

LAYER = "model.decoder.layers.1"
CHOSEN = {
    "bart": [f"{LAYER}.{name}" for name in ("self_attn", "encoder_attn", "encoder_attn_layer_norm", "fc2")],
    "modernbert": [
        "layers.0.attn_norm",
        "layers.0.attn",
        "layers.0.mlp_norm",
        "layers.0.mlp",
        "final_norm",
        "layers.0",
    ],
    "bert": ["encoder.layer.0.attention", "encoder.layer.0.output.LayerNorm", "encoder.layer.0"],
    "t5": ["encoder.block.0.layer.0.layer_norm", "encoder.block.0.layer.0.SelfAttention"],
    "gpt2": ["transformer.h.0.ln_1", "transformer.h.0.attn", "transformer.ln_f"],
    "olmo": ["model.layers.0.post_feedforward_layernorm", "model.norm", "logits"],
}
LEFT_OUT = ["model.rotary_emb#full_attention", "layers.0.self_attn.q_norm", "layers.0.self_attn.o_proj", f"{LAYER}.fc1"]


def chosen(name: str) -> bool:
    globs = OF_GRAPHS["sub-layer"]
    without = any(fnmatchcase(name, glob[1:]) for glob in globs if glob.startswith("!"))
    return not without and any(fnmatchcase(name, glob) for glob in globs if not glob.startswith("!"))


@pytest.mark.parametrize("family", CHOSEN)
def test_sub_layer_has_what_attention_mlp_norms_and_layers_give(family: str) -> None:
    assert [name for name in CHOSEN[family] if not chosen(name)] == []


def test_what_is_within_them_is_left_out() -> None:
    assert [name for name in LEFT_OUT if chosen(name)] == []
