"""Raschka's llms-from-scratch as a candidate: plain torch without a cache, so that each step runs the row again.

Its eps is written into the code: 1e-6, whatever a checkpoint's config says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from llms_from_scratch.qwen3 import Qwen3Model, load_weights_into_qwen
from shared import MODULES, Taken, causal_runner, watch_network, weights

PACKAGE, HAS = "llms-from-scratch", {"qk_norm"}
LAYER = {
    "norm1": ("input", "input_layernorm"),
    "att.W_query": ("", "merged_attn.q_proj"),
    "att.W_key": ("", "merged_attn.k_proj"),
    "att.W_value": ("", "merged_attn.v_proj"),
    "att.q_norm": ("", "merged_attn.q_norm"),
    "att.k_norm": ("", "merged_attn.k_norm"),
    "att.out_proj": ("merged_attn.context", "merged_attn.o_proj"),
    "norm2": ("attn_residual", "post_attention_layernorm"),
    "ff.fc1": ("", "mlp.gate_proj"),
    "ff.fc2": ("", "mlp.up_proj"),
    "ff.fc3": ("mlp.act", "mlp.down_proj"),
    "": ("", "output"),
}


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner on the decoder's checkpoint, its weights copied by the package's own loader."""
    c, taken = case.config, Taken()
    config = {
        "vocab_size": c.vocab_size,
        "context_length": 256,
        "emb_dim": c.hidden_size,
        "n_heads": c.num_attention_heads,
        "n_layers": c.num_hidden_layers,
        "hidden_dim": c.intermediate_size,
        "head_dim": c.head_dim,
        "qk_norm": True,
        "n_kv_groups": c.num_key_value_heads,
        "rope_base": c.rope_theta,
        "dtype": torch.float32,
    }
    model = Qwen3Model(config).eval()
    tensors = {name: torch.from_numpy(value) for name, value in weights(checkpoints["decoder"]).items()}
    load_weights_into_qwen(model, config, tensors)
    watch_network(taken, model.trf_blocks, LAYER, model.tok_emb, model.final_norm)

    @torch.no_grad()
    def forward(ids: Any, now: slice) -> torch.Tensor:
        return model(torch.from_numpy(ids))

    return causal_runner("llms-from-scratch", taken, forward, MODULES)
