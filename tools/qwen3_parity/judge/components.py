"""The network's components, bottom-up, each with the taps that show it: the order in which a port is debugged."""

from __future__ import annotations

from fnmatch import fnmatchcase

from qwen3_golden import pattern_of

COMPONENTS: dict[str, tuple[str, ...]] = {
    "norm": ("*layernorm", "encoder.norm", "decoder.norm", "*.norm1", "*.norm2", "pre_norm.norm", "op.rms_norm"),
    "rope_tables": ("*position_ids", "*.inv_freq", "*cos", "*sin", "op.inv_freq", "op.rope_table"),
    "rope": ("*_rope", "op.rope"),
    "qk_norm": ("*q_norm", "*k_norm", "op.head_norm"),
    "gqa": ("op.repeat_kv",),
    "masks": ("*.mask", "op.mask"),
    "attention": (
        *("*q_proj", "*k_proj", "*v_proj", "*.scores", "*.probs", "*.context", "*.o_proj", "*.attn_residual"),
        *("*.qkv_proj", "*.self_attn.q", "*.self_attn.k", "*.self_attn.v", "*.out_proj"),
        *("op.linear", "op.scores", "op.softmax", "op.context"),
    ),
    "mlp": ("*.mlp.*", "*.feed_forward.*", "op.swiglu"),
    "encoder": (
        *("encoder.embed_tokens", "encoder.layers.*.input", "encoder.layers.*.output", "op.embedding"),
        *("*_norm.embed_*", "*_norm.embeddings", "*_norm.layers.*.input", "*_norm.layers.*.output"),
        *("post_norm.layers.*.ff_residual", "post_norm.last_hidden_state"),
    ),
    "merged_decoder": ("decoder.embed_tokens", "decoder.layers.*.input", "decoder.layers.*.output"),
    "cache": ("*.cache_*",),
    "logits": ("logits",),
    "generation": ("generated_ids", "next_token_probs", "beam_scores", "sequences_scores", "op.next_token_probs"),
    "gradients": ("loss", "gradient.*"),
}


def component_of(name: str, op: str = "") -> str:
    """The component that a tap shows; `op` is the case's op for the outputs of an op alone. Raises `KeyError`."""
    label = f"op.{op}" if op else pattern_of(name)
    if label.startswith("gradient."):  # its last parts are those of the tap that it belongs to
        return "gradients"
    for component, globs in COMPONENTS.items():
        if any(fnmatchcase(label, glob) for glob in globs):
            return component
    raise KeyError(label)
