"""litgpt's own GPT as a candidate, its cache in use: torch modules, queries, keys and values one product, SDPA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from litgpt.config import Config
from litgpt.model import GPT
from litgpt.scripts.convert_hf_checkpoint import copy_weights_qwen_3
from shared import MODULES, Taken, causal_runner, layer_name, watch, watch_network, weights

PACKAGE, HAS = "litgpt", {"qk_norm"}
LAYER = {
    "norm_1": ("input", "input_layernorm"),
    "attn.norm_q": ("", "merged_attn.q_norm"),
    "attn.norm_k": ("", "merged_attn.k_norm"),
    "attn.proj": ("merged_attn.context", "merged_attn.o_proj"),
    "norm_2": ("attn_residual", "post_attention_layernorm"),
    "mlp.fc_1": ("", "mlp.gate_proj"),
    "mlp.fc_2": ("", "mlp.up_proj"),
    "mlp.proj": ("mlp.act", "mlp.down_proj"),
    "": ("", "output"),
}


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner on the decoder's checkpoint, its weights copied by litgpt's own conversion."""
    c, taken = case.config, Taken()
    config = Config(
        name="Qwen3-golden",
        block_size=256,
        vocab_size=c.vocab_size,
        padded_vocab_size=c.vocab_size,
        n_layer=c.num_hidden_layers,
        n_head=c.num_attention_heads,
        n_embd=c.hidden_size,
        n_query_groups=c.num_key_value_heads,
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        intermediate_size=c.intermediate_size,
        norm_eps=c.rms_norm_eps,
        rope_base=c.rope_theta,
        head_size=c.head_dim,
        norm_qk=True,
    )
    state: dict[str, torch.Tensor] = {}
    tensors = {name: torch.from_numpy(value) for name, value in weights(checkpoints["decoder"]).items()}
    copy_weights_qwen_3(config, {}, state, tensors)
    model = GPT(config).eval()
    model.load_state_dict(state)
    q, k = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    for index, block in enumerate(model.transformer.h):
        names = [layer_name(index, f"merged_attn.{one}_proj") for one in "qkv"]
        watch(block.attn.qkv, taken, "", tuple(zip(names, (q, k, k), strict=True)))
    watch_network(taken, model.transformer.h, LAYER, model.transformer.wte, model.transformer.ln_f)

    @torch.no_grad()
    def forward(ids: Any, now: slice) -> torch.Tensor:
        if now.start == 0:
            model.set_kv_cache(ids.shape[0], 256)
        rows = torch.arange(now.start, now.stop)
        return model(torch.from_numpy(ids[:, now]), rows, now.stop)

    return causal_runner("litgpt", taken, forward, MODULES)
