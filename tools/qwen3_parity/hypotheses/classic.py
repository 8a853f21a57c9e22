"""Wrong parts that only the classic encoder has: embeddings and positions, the fused projection, its activation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.hypotheses.activations import ACTIVATIONS
from qwen3_parity.hypotheses.embedding_additions import ids_of, table_of
from qwen3_parity.hypotheses.hypothesis import Hypothesis
from qwen3_parity.hypotheses.observed import likely, seen
from qwen3_spec import ops
from qwen3_spec.classic_config import classic_config
from qwen3_spec.site import Result, Site

_SUM = "token embeddings × sqrt(hidden_size), where the network scales them, + position embeddings"
_POSITIONS = "row i of the position table for slot i, padding or not"
_FUSED = "rows of the fused projection are all of q, then all of k, then all of v, head by head"

Change = Callable[[Array, Array], Array]


def scaled_sum(site: Site) -> Iterator[Hypothesis]:
    """The scale left out, twice, divided by, or on the positions too; a part left out."""
    root = site.config.hidden_size**0.5
    right = classic_config(site).embedding_scale
    table: tuple[tuple[str, str, float, float, int], ...] = (
        ("embedding.scaled", "does not multiply the tokens by sqrt(hidden_size)", 1, 1, 0),
        ("embedding.scaled", "multiplies the tokens by sqrt(hidden_size)", root, 1, 0),
        ("embedding.scaled", "multiplies the tokens by sqrt(hidden_size) twice", root * root, 1, 0),
        ("embedding.scaled", "divides the tokens by sqrt(hidden_size)", 1 / root, 1, 0),
        ("embedding.scaled", "multiplies the positions by sqrt(hidden_size) too", right, root, 0),
        ("embedding.scaled", "multiplies the positions, not the tokens, by sqrt(hidden_size)", 1, root, 1),
        ("embedding.scaled", "multiplies the tokens by sqrt(head_dim)", site.config.head_dim**0.5, 1, 1),
        ("positions.missing", "adds no positions", right, 0, 0),
        ("positions.missing", "adds no positions and does not scale", 1, 0, 1),
        ("positions.twice", "adds the positions twice", right, 2, 0),
        ("positions.subtracted", "subtracts the positions", right, -1, 0),
        ("embedding.missing", "is the positions alone", 0, 1, 1),
    )
    guesses = (
        Hypothesis(name, says, _SUM, partial(_weighted, one, other), rank)
        for name, says, one, other, rank in table
        if (one, other) != (right, 1)
    )
    yield from likely(site, seen(site), guesses)


def _weighted(one: float, other: float, site: Site) -> Result:
    tokens, positions = (np.asarray(value, np.float64) for value in site.inputs)
    y = one * tokens + other * positions
    return y, ops.scaled_sum.unit(tokens, 2 * other * positions, one)


def learned_positions(site: Site) -> Iterator[Hypothesis]:
    """Other rows of a table of learned positions; nothing for an embedding of tokens."""
    if not site.place.name.endswith(".embed_positions"):
        return
    real = site.values.recorded("input.encoder_attention_mask", 0)
    mask = np.ones(site.inputs[0].shape, bool) if real is None else real.astype(bool)
    counted = np.cumsum(mask, axis=1)
    table: tuple[tuple[str, str, Callable[[Array], Array], int], ...] = (
        *(
            ("positions.offset", f"starts from row {by}{of}", partial(np.add, by), by > 2)
            for by, of in ((1, ""), (2, ", as RoBERTa"), (3, ""), (4, ""))
        ),
        ("positions.offset", "starts one row too early", lambda at: at - 1, 1),
        ("positions.counts_real", "counts real tokens alone", lambda at: np.maximum(counted - 1, 0), 0),
        ("positions.counts_real", "counts real tokens alone, padding at the last row", lambda at: counted - 1, 1),
        ("positions.counts_real", "counts real tokens from 2 on, padding at row 1 (RoBERTa)",
         lambda at: counted * mask + 1, 0),
        ("positions.counts_real", "counts real tokens from 1 on, padding at row 0", lambda at: counted * mask, 0),
        ("positions.constant", "gives every slot row 0", np.zeros_like, 0),
        ("positions.reversed", "counts from the end", lambda at: at[:, ::-1], 1),
        ("positions.reversed", "counts back from 0", np.negative, 2),
    )  # fmt: skip
    guesses = (
        Hypothesis(name, says, _POSITIONS, partial(_looked_up, change), int(rank)) for name, says, change, rank in table
    )
    yield from likely(site, seen(site), guesses)


def _looked_up(change: Callable[[Array], Array], site: Site) -> Result:
    table = table_of(site)
    return np.asarray(table[change(ids_of(site)) % len(table)], np.float64), None


def split_heads(site: Site) -> Iterator[Hypothesis]:
    """The fused projection cut in another way: another third, per head, or with heads innermost."""
    yield from likely(site, seen(site), _cuts(site))


def _cuts(site: Site) -> Iterator[Hypothesis]:
    part = ops.split_heads.PARTS.index(site.place.name.rpartition(".")[2])
    for other, name in enumerate(ops.split_heads.PARTS):
        if other != part:
            says = f"takes the rows of {name}"
            yield Hypothesis("qkv.exchanged", says, _FUSED, partial(_cut, ("part", "head", "dim"), other))
    for order in permutations(("part", "head", "dim")):
        if order != ("part", "head", "dim"):
            per_head = order == ("head", "part", "dim")
            says = f"takes the rows for ({', '.join(order)})" + (", head by head as GPT-NeoX" if per_head else "")
            for other in range(3):
                name = "qkv.interleaved" if order.index("part") else "qkv.heads_innermost"
                rank = (other != part) + (not per_head)
                yield Hypothesis(name, says, _FUSED, partial(_cut, order, other), int(rank))


def _cut(order: tuple[str, ...], part: int, site: Site) -> Result:
    heads = site.config.num_attention_heads
    batch, length, width = site.inputs[0].shape
    sizes = {"part": 3, "head": heads, "dim": width // (3 * heads)}
    parts = site.inputs[0].reshape(batch, length, *(sizes[one] for one in order))
    axes = [2 + order.index(one) for one in ("part", "head", "dim")]
    return parts.transpose(axes[0], 0, axes[1], 1, axes[2])[part], None


def activation(site: Site) -> Iterator[Hypothesis]:
    """Every other activation that is known by name, and none."""
    yield from likely(site, seen(site), _activations(site))


def _activations(site: Site) -> Iterator[Hypothesis]:
    fix = f"act(x) with hidden_act {site.config.hidden_act}"
    for name, function, cancels in ACTIVATIONS:
        yield Hypothesis("mlp.activation", f"computes {name}", fix, partial(_activated, function, cancels))
    yield Hypothesis("mlp.no_activation", "is left out", fix, lambda site: (site.inputs[0], None))


def _activated(function: Callable[[Array], Array], cancels: bool, site: Site) -> Result:
    x = np.asarray(site.inputs[0], np.float64)
    y = function(x)
    return y, ops.activation.unit(y, x, "gelu" if cancels else "relu")
