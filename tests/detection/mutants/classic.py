"""Wrong classic encoders: norms, their place, positions, the fused projection, scores, masks, activations, biases."""

from __future__ import annotations

import torch
from torch.nn import functional

from detection.mutants import classic_seeds as to
from detection.mutants.mutant import Mutant, Seed, words

PRE, POST, BERT = ("classic/pre_norm",), ("classic/post_norm",), ("classic/bert",)
ALL = (*PRE, *POST, *BERT)
EMBEDDED = (*PRE, *POST)
BLOCK = words("norm1 norm2")
NORMS = BLOCK | words("pre_norm.norm")
HEADS = words("self_attn.q self_attn.k self_attn.v")
ACT = words("feed_forward.act")
SUM = words("pre_norm.embeddings post_norm.embeddings")
ROWS = words("pre_norm.embed_positions post_norm.embed_positions")
PRE_NORM = words("attn_residual self_attn.qkv_proj ff_residual feed_forward.linear1 output")
POST_NORM = words("norm1 norm2 self_attn.qkv_proj feed_forward.linear1 output")

SEEDS: tuple[tuple[str, str, Seed, frozenset[str], str, tuple[str, ...]], ...] = (
    ("eps-bert", "eps 1e-12", to.eps(1e-12), BLOCK, "norm.eps", EMBEDDED),
    ("eps-torch", "eps 1e-5", to.eps(1e-5), BLOCK, "norm.eps", BERT),
    ("eps-1e-6", "eps 1e-6", to.eps(1e-6), BLOCK, "norm.eps", EMBEDDED),
    (
        "norm-bessel",
        "variance over n - 1",
        to.by(lambda x, e: (to.variance(x, True) + e).sqrt()),
        NORMS,
        "norm.bessel",
        ALL,
    ),
    (
        "norm-eps-outside",
        "eps behind the root",
        to.by(lambda x, e: to.variance(x).sqrt() + e),
        NORMS,
        "norm.eps_outside_root",
        EMBEDDED,
    ),
    ("norm-rms", "RMSNorm", to.normed(to.rms), NORMS, "norm.rms", ALL),
    (
        "norm-no-bias",
        "LayerNorm without its bias",
        to.normed(lambda x, m: functional.layer_norm(x, x.shape[-1:], m.weight, None, m.eps)),
        NORMS,
        "norm.no_bias",
        ALL,
    ),
    (
        "norm-no-weight",
        "LayerNorm without its weight",
        to.normed(lambda x, m: functional.layer_norm(x, x.shape[-1:], None, m.bias, m.eps)),
        NORMS,
        "norm.no_weight",
        ALL,
    ),
    (
        "norms-exchanged",
        "norm1 and norm2 exchanged",
        to.norms_exchanged,
        words("norm1 norm2"),
        "weight.other_tensor",
        ALL,
    ),
    ("post-for-pre", "post-norm blocks", to.post, POST_NORM, "norm.placement", PRE),
    (
        "pre-for-post",
        "pre-norm blocks",
        to.blocks(to.pre),
        PRE_NORM,
        "norm.placement residual.branch_missing",
        (*POST, *BERT),
    ),
    (
        "stream-normed",
        "the stream goes on normed",
        to.blocks(to.stream_normed),
        words("attn_residual"),
        "norm.placement",
        PRE,
    ),
    (
        "branch-unnormed",
        "attention reads the stream",
        to.blocks(to.branch_unnormed),
        words("self_attn.qkv_proj"),
        "norm.placement",
        PRE,
    ),
    (
        "sum-unnormed",
        "the second sum starts from the first, not from its norm",
        to.blocks(to.sum_unnormed),
        words("ff_residual"),
        "norm.placement",
        (*POST, *BERT),
    ),
    (
        "last-norm-missing",
        "no norm behind the last layer",
        to.last_norm_missing,
        words("pre_norm.norm"),
        "norm.no_norm wiring.skipped",
        PRE,
    ),
    (
        "last-norm-extra",
        "a norm behind the last layer",
        to.last_norm_extra,
        words("post_norm.last_hidden_state"),
        "norm.extra",
        POST,
    ),
    ("scale-missing", "embeddings not scaled", to.scale(lambda s: 1.0), SUM, "embedding.scaled", EMBEDDED),
    ("scale-twice", "embeddings scaled twice", to.scale(lambda s: s * s), SUM, "embedding.scaled", EMBEDDED),
    ("scale-divided", "embeddings divided by the root", to.scale(lambda s: 1 / s), SUM, "embedding.scaled", EMBEDDED),
    ("scale-sum", "positions scaled too", to.sum_scaled, SUM, "embedding.scaled", EMBEDDED),
    ("positions-one", "positions from 1", to.positions(lambda at, mask: at + 1), ROWS, "positions.offset", EMBEDDED),
    (
        "positions-roberta",
        "positions from 2",
        to.positions(lambda at, mask: at + 2),
        ROWS,
        "positions.offset",
        EMBEDDED,
    ),
    (
        "positions-counted",
        "positions count real tokens",
        to.positions(lambda at, mask: (mask.cumsum(1) - 1).clamp(min=0)),
        ROWS,
        "positions.counts_real",
        EMBEDDED,
    ),
    ("qkv-interleaved", "q, k, v head by head", to.split("hpd"), HEADS, "qkv.interleaved", ALL),
    ("qkv-innermost", "q, k, v innermost", to.split("hdp"), HEADS, "qkv.interleaved", ALL),
    ("qkv-heads-innermost", "heads innermost", to.split("pdh"), HEADS, "qkv.heads_innermost", ALL),
    (
        "kv-exchanged",
        "k and v exchanged",
        to.split("phd", (0, 2, 1)),
        words("self_attn.k self_attn.v"),
        "qkv.exchanged",
        ALL,
    ),
    (
        "qk-exchanged",
        "q and k exchanged",
        to.split("phd", (1, 0, 2)),
        words("self_attn.q self_attn.k"),
        "qkv.exchanged",
        ALL,
    ),
    (
        "scores-unscaled",
        "scores not scaled",
        to.scores(lambda d, h: 1.0),
        words("self_attn.scores"),
        "scores.scale",
        ALL,
    ),
    (
        "scores-hidden",
        "scores scaled by hidden_size",
        to.scores(lambda d, h: h**-0.5),
        words("self_attn.scores"),
        "scores.scale",
        ALL,
    ),
    (
        "scores-twice",
        "scores scaled twice",
        to.scores(lambda d, h: 1 / d),
        words("self_attn.scores"),
        "scores.scale",
        ALL,
    ),
    (
        "mask-inverted",
        "real tokens hidden, padding seen",
        to.masks(torch.logical_not),
        words("self_attn.mask"),
        "mask.inverted",
        ALL,
    ),
    (
        "mask-none",
        "padding seen",
        to.masks(lambda mask: None),
        words("self_attn.mask"),
        "mask.none mask.padding_ignored",
        ALL,
    ),
    (
        "mask-ignored",
        "the mask never reaches the softmax",
        to.ignored,
        words("self_attn.probs"),
        "softmax.no_mask softmax.mask_ignored mask.none",
        ALL,
    ),
    ("gelu-tanh", "GELU by tanh", to.activated(to.gelu_tanh), ACT, "mlp.activation", (*PRE, *BERT)),
    (
        "gelu-quick",
        "quick GELU",
        to.activated(lambda x: x * (1.702 * x).sigmoid()),
        ACT,
        "mlp.activation",
        (*PRE, *BERT),
    ),
    ("gelu-for-relu", "GELU for ReLU", to.activated(functional.gelu), ACT, "mlp.activation", POST),
    ("relu-for-gelu", "ReLU for GELU", to.activated(torch.relu), ACT, "mlp.activation", (*PRE, *BERT)),
    (
        "no-qkv-bias",
        "q, k, v without bias",
        to.without_biases("self_attn.qkv_proj"),
        words("self_attn.qkv_proj"),
        "weight.no_bias",
        ALL,
    ),
    (
        "no-out-bias",
        "out_proj without bias",
        to.without_biases("self_attn.out_proj"),
        words("self_attn.out_proj"),
        "weight.no_bias",
        ALL,
    ),
    (
        "no-feed-forward-bias",
        "no biases in the feed-forward block",
        to.without_biases("feed_forward.linear1", "feed_forward.linear2"),
        words("feed_forward.linear1 feed_forward.linear2"),
        "weight.no_bias",
        ALL,
    ),
)
"""Name behind "own/classic-", the wrong code, its seed, what is wrong, what it is named, the cases."""

MUTANTS = tuple(
    Mutant(f"own/classic-{name}", says, seed, wrong, words(named), cases)
    for name, says, seed, wrong, named, cases in SEEDS
)
