"""Norms of queries and keys in a wrong place."""

from __future__ import annotations

from typing import Any

from detection.mutants.mutant import Mutant, attention, words
from detection.mutants.patch import Patch
from qwen3_encdec.attention import ProjectedAttention
from qwen3_encdec.norm import Qwen3RMSNorm

BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")


def after_rope(patch: Patch) -> None:
    """QK-norm behind the rotation; the port says that it has no taps before it."""
    patch.setattr(ProjectedAttention, "query_heads", lambda m, x: m._split_heads(x).transpose(1, 2))
    patch.setattr(ProjectedAttention, "key_heads", lambda m, x: m._split_heads(x).transpose(1, 2))

    def attend(plain: Any, m: Any, queries: Any, keys: Any, *rest: Any) -> Any:
        return plain(m, Qwen3RMSNorm.forward(m.q_norm, queries), Qwen3RMSNorm.forward(m.k_norm, keys), *rest)

    patch.wrap(ProjectedAttention, "attend", attend)
    shown = [pattern for pattern in patch.runner.run.materialised if not pattern.endswith(("q_norm", "k_norm"))]
    patch.runner.run.ClearField("materialised")
    patch.runner.run.materialised.extend(shown)


def values_for_queries(patch: Patch) -> None:
    patch.wrap(ProjectedAttention, "value_heads", lambda plain, m, x: Qwen3RMSNorm.forward(m.q_norm, plain(m, x)))
    for attn in patch.attentions():
        patch.setattr(attn.q_norm, "forward", lambda x: x)


MUTANTS = (
    Mutant("QKN-02", "QK-norm after RoPE", after_rope, attention("q_rope k_rope"), words("rope.before_norm"), BOTH[2:]),
    Mutant("QKN-05", "v normed in place of q", values_for_queries,
           attention("q_norm cache_values cache_encoder_values") | words("self_attn.context"),
           words("norm.no_norm wiring.extra_norm"), BOTH),
)  # fmt: skip
