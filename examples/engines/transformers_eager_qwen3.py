"""Hugging Face's own Qwen3ForCausalLM as a candidate, as anybody calls it: its cache, its masks, eager attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from shared import MODULES, Inputs, Taken, runner, watch_network
from transformers import AutoModelForCausalLM, DynamicCache

PACKAGE, VARIANT = "transformers", "eager"
HAS = {"qk_norm", "window", "yarn", "padding", "positions", "inputs_embeds", "mask_4d"}
LAYER = {
    "input_layernorm": ("input", "input_layernorm"),
    "self_attn.q_proj": ("", "merged_attn.q_proj"),
    "self_attn.k_proj": ("", "merged_attn.k_proj"),
    "self_attn.v_proj": ("", "merged_attn.v_proj"),
    "self_attn.q_norm": ("", "merged_attn.q_norm"),
    "self_attn.k_norm": ("", "merged_attn.k_norm"),
    "self_attn.o_proj": ("merged_attn.context", "merged_attn.o_proj"),
    "post_attention_layernorm": ("attn_residual", "post_attention_layernorm"),
    "mlp.gate_proj": ("", "mlp.gate_proj"),
    "mlp.up_proj": ("", "mlp.up_proj"),
    "mlp.down_proj": ("mlp.act", "mlp.down_proj"),
    "": ("", "output"),
}


def build(attention: str, case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner on the decoder's checkpoint with one of transformers' kinds of attention."""
    taken = Taken()
    model = AutoModelForCausalLM.from_pretrained(
        checkpoints["decoder"], attn_implementation=attention, dtype=torch.float32, local_files_only=True
    ).eval()
    watch_network(taken, model.model.layers, LAYER, model.model.embed_tokens, model.model.norm)
    held = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"  # from 5.24 on
    cache: Any = None

    @torch.no_grad()
    def forward(inputs: Inputs, now: slice) -> torch.Tensor:
        nonlocal cache
        if now.start == 0:
            cache = DynamicCache()
        tensors = {name.removeprefix("input.decoder_"): torch.from_numpy(array) for name, array in inputs.items()}
        kind = "inputs_embeds" if "inputs_embeds" in tensors else "input_ids"
        mask = tensors["attention_mask"][:, : now.stop]
        if "mask" in tensors:
            visible = tensors["mask"][:, None, now, : now.stop].bool()
            mask = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
        given = {kind: tensors[kind][:, now], "attention_mask": mask, "position_ids": tensors["position_ids"][:, now]}
        return model(**given, **{held: cache}, use_cache=True).logits

    return runner(f"transformers {attention}", taken, forward, MODULES, heads_first=())


factory = partial(build, VARIANT)
