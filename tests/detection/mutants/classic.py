"""Wrong classic encoders: where norms stand, and what positions count."""

from __future__ import annotations

from detection.mutants import classic_seeds as to
from detection.mutants.mutant import Mutant, Seed, words

PRE, POST, BERT = ("classic/pre_norm",), ("classic/post_norm",), ("classic/bert",)
ALL = (*PRE, *POST, *BERT)
EMBEDDED = (*PRE, *POST)
BLOCK = words("norm1 norm2")
ROWS = words("pre_norm.embed_positions post_norm.embed_positions")
PRE_NORM = words("attn_residual self_attn.qkv_proj ff_residual feed_forward.linear1 output")
POST_NORM = words("norm1 norm2 self_attn.qkv_proj feed_forward.linear1 output")

SEEDS: tuple[tuple[str, str, Seed, frozenset[str], str, tuple[str, ...]], ...] = (
    ("norms-exchanged", "norm1 and norm2 exchanged", to.norms_exchanged, words("norm1 norm2"), "weight.other_tensor",
     ALL),
    ("post-for-pre", "post-norm blocks", to.post, POST_NORM, "norm.placement", PRE),
    ("pre-for-post", "pre-norm blocks", to.blocks(to.pre), PRE_NORM, "norm.placement residual.branch_missing",
     (*POST, *BERT)),
    ("stream-normed", "the stream goes on normed", to.blocks(to.stream_normed), words("attn_residual"),
     "norm.placement", PRE),
    ("branch-unnormed", "attention reads the stream", to.blocks(to.branch_unnormed), words("self_attn.qkv_proj"),
     "norm.placement", PRE),
    ("sum-unnormed", "the second sum starts from the first, not from its norm", to.blocks(to.sum_unnormed),
     words("ff_residual"), "norm.placement", (*POST, *BERT)),
    ("last-norm-extra", "a norm behind the last layer", to.last_norm_extra, words("post_norm.last_hidden_state"),
     "norm.extra", POST),
    ("positions-counted", "positions count real tokens",
     to.positions(lambda at, mask: (mask.cumsum(1) - 1).clamp(min=0)), ROWS, "positions.counts_real", EMBEDDED),
)  # fmt: skip
"""Name behind "own/classic-", the wrong code, its seed, what is wrong, what it is named, the cases."""

MUTANTS = tuple(
    Mutant(f"own/classic-{name}", says, seed, wrong, words(named), cases)
    for name, says, seed, wrong, named, cases in SEEDS
)
