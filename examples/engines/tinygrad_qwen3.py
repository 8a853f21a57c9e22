"""tinygrad's llm.model as a candidate, its cache in use: attention is one expression between its modules.

tinygrad compiles a layer as one function; here the layer runs as it is written, so that its modules show.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("DEV", "CPU:X86")  # its own assembler: no compiler is needed

from shared import MODULES, Taken, Watched, causal_runner, layer_name, weights
from tinygrad import Tensor, nn
from tinygrad.llm import model as package

PACKAGE, HAS = "tinygrad", {"qk_norm"}
NAMES = {
    "attn_norm": ("input", "input_layernorm"),
    "attn_q": ("", "self_attn.q_proj"),
    "attn_k": ("", "self_attn.k_proj"),
    "attn_v": ("", "self_attn.v_proj"),
    "attn_q_norm": ("", "self_attn.q_norm"),
    "attn_k_norm": ("", "self_attn.k_norm"),
    "attn_output": ("self_attn.context", "self_attn.o_proj"),
    "ffn_norm": ("attn_residual", "post_attention_layernorm"),
    "ffn_gate": ("", "mlp.gate_proj"),
    "ffn_up": ("", "mlp.up_proj"),
    "ffn_down": ("mlp.act", "mlp.down_proj"),
}
"""A layer's modules in tinygrad, the tap that goes in and Hugging Face's name of the module, whose output is a tap."""


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner on the decoder's checkpoint, its tensors under the names that tinygrad's GGUF loader gives them."""
    c, taken = case.config, Taken()
    config = package.TransformerConfig(
        num_blocks=c.num_hidden_layers,
        dim=c.hidden_size,
        hidden_dim=c.intermediate_size,
        n_heads=c.num_attention_heads,
        n_kv_heads=c.num_key_value_heads,
        norm_eps=c.rms_norm_eps,
        vocab_size=c.vocab_size,
        head_dim=c.head_dim,
        v_head_dim=c.head_dim,
        rope_theta=c.rope_theta,
        rope_dim=c.head_dim,
        max_context=sum(case.steps),
        qk_norm=c.head_dim,
    )
    package.function = lambda **_: lambda run: run
    model, stored = package.Transformer(config), weights(checkpoints["decoder"])
    state = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    for index in range(c.num_hidden_layers):
        state |= {f"blk.{index}.{ours}": f"model.layers.{index}.{name}" for ours, (_, name) in NAMES.items()}
    tensors = {f"{ours}.weight": Tensor(stored[f"{name}.weight"]) for ours, name in state.items()}
    nn.state.load_state_dict(model, tensors, verbose=False)

    def watch(owner: Any, name: str, before: str, after: str) -> None:
        setattr(owner, name, Watched(getattr(owner, name), taken, before, after))

    for index, block in enumerate(model.blk):
        for ours, (before, after) in NAMES.items():
            before, after = (one.replace("self_attn", "merged_attn") for one in (before, after))
            watch(block, ours, before and layer_name(index, before), layer_name(index, after))
        model.blk[index] = Watched(block, taken, "", layer_name(index, "output"))
    watch(model, "token_embd", "", "decoder.embed_tokens")
    watch(model, "output_norm", "", "decoder.norm")

    def forward(ids: Any, now: slice) -> Any:
        x = model.token_embd(Tensor(ids[:, now]))  # as in Transformer.forward, which shows the last position's choice
        for block in model.blk:
            x = block(x, now.start)
        logits = model.output(model.output_norm(x))
        Tensor.realize(logits, *(value for _, value in taken))
        taken[:] = [(name, value.numpy()) for name, value in taken]
        return logits.numpy()

    return causal_runner("tinygrad", taken, forward, MODULES)
