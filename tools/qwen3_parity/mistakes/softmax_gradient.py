"""Wrong ways back through softmax: no sum over the row, one over a part of it, parts that are not joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.formulas import Formula, Wrong, on_inputs
from qwen3_parity.mistakes.generic import BLOCKS
from qwen3_parity.mistakes.gradients import cut
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_spec.site import Site


def by_scores(site: Site) -> Iterator[Hypothesis]:
    """The derivative without the sum over the row, or with a sum over a part of it."""
    fix = "ds = p (dp - sum(dp p)), the sum over all keys"
    table: list[tuple[str, Wrong]] = [
        ("takes the gradient's sum for a constant: dy p without the sum term", on_inputs(lambda dy, p: dy * p))
    ]
    keys = site.inputs[1].shape[-1]
    for count in sorted({*(count for count in (1, 2, 4, 8, 16, 32) if count < keys), (keys + 1) // 2, keys - 1}):
        every = [
            (f"sums over the first {count} of the {keys} keys alone", slice(None, count)),
            (f"sums without the first {count} of the {keys} keys", slice(count, None)),
            (f"sums over the last {count} of the {keys} keys alone", slice(-count, None)),
        ]
        table += [
            (f"{says}: the rest of the row's sum is lost", on_inputs(partial(_summed_of, part))) for says, part in every
        ]
    for size in dict.fromkeys(((keys + 1) // 2, *(size for size in BLOCKS if size < keys))):
        blocks = f"takes blocks of {size} keys by themselves, each with {{}} sum: they are not joined"
        table += [
            (blocks.format("its own"), on_inputs(partial(_by_blocks, size, False))),
            (blocks.format("its own exponentials' and its own"), on_inputs(partial(_by_blocks, size, True))),
        ]
    for number, (says, formula) in enumerate(table):
        yield Hypothesis("gradient.softmax_sum", says, fix, Formula(formula), PLAIN + bool(number))


def _summed_of(part: slice, dy: Array, p: Array) -> Array:
    return np.asanyarray(p * (dy - (p * dy)[..., part].sum(axis=-1, keepdims=True)))


def _by_blocks(size: int, normed: bool, dy: Array, p: Array) -> Array:
    """The derivative of blocks of keys; `normed`: of probabilities that sum to 1 in each."""
    parts = []
    for start in range(0, p.shape[-1], size):
        each, its = p[..., start : start + size], dy[..., start : start + size]
        if normed:
            each = each / np.maximum(each.sum(axis=-1, keepdims=True), 1e-30)
        parts.append(each * (its - (each * its).sum(axis=-1, keepdims=True)))
    return np.concatenate(parts, axis=-1)


MISTAKES: Mapping[str, Mistakes] = {"softmax_gradient": Mistakes((by_scores, cut))}
