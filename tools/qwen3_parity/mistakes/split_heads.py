"""TODO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import permutations

from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec import ops
from qwen3_spec.site import Result, Site

_FUSED = "rows of the fused projection are all of q, then all of k, then all of v, head by head"


def split_heads(site: Site) -> Iterator[Hypothesis]:
    """The fused projection cut in another way: another third, per head, or with heads innermost."""
    yield from likely(site, observe(site), _cuts(site))


def _cuts(site: Site) -> Iterator[Hypothesis]:
    part = ops.split_heads.PARTS.index(site.place.name.rpartition(".")[2])
    for other_part, name in enumerate(ops.split_heads.PARTS):
        if other_part != part:
            says = f"takes the rows of {name}"
            yield Hypothesis("qkv.exchanged", says, _FUSED, partial(_cut, ("part", "head", "dim"), other_part))
    for order in permutations(("part", "head", "dim")):
        if order != ("part", "head", "dim"):
            per_head = order == ("head", "part", "dim")
            says = f"takes the rows for ({', '.join(order)})" + (", head by head as GPT-NeoX" if per_head else "")
            for other_part in range(3):
                name = "qkv.interleaved" if order.index("part") else "qkv.heads_innermost"
                rank = PLAIN + (other_part != part) + (not per_head)
                yield Hypothesis(name, says, _FUSED, partial(_cut, order, other_part), rank)


def _cut(order: tuple[str, ...], part: int, site: Site) -> Result:
    heads = site.config.num_attention_heads
    batch, length, width = site.inputs[0].shape
    sizes = {"part": 3, "head": heads, "dim": width // (3 * heads)}
    parts = site.inputs[0].reshape(batch, length, *(sizes[axis] for axis in order))
    axes = [2 + order.index(axis) for axis in ("part", "head", "dim")]
    return parts.transpose(axes[0], 0, axes[1], 1, axes[2])[part], None


MISTAKES: Mapping[str, Mistakes] = {
    "split_heads": Mistakes((split_heads,)),
}
