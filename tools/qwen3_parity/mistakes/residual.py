"""Wrong residual sums: a part left out, taken twice or scaled, another stream, narrow types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from qwen3_golden import Array
from qwen3_parity.mistakes.factors import named
from qwen3_parity.mistakes.fitting import fitted, shifted
from qwen3_parity.mistakes.formulas import Wrong, inputs, on_inputs, rows
from qwen3_parity.mistakes.generic import casts, clamped
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.norm_placement import placement
from qwen3_parity.mistakes.normed import norm
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.streams import blocks
from qwen3_spec.site import Site

FIX = "stream + branch, each once: the stream is the sub-block's input before its norm"
_SUMS: tuple[tuple[str, str, Rank, float, float], ...] = (
    ("missing", "is the branch alone", PLAIN, 0, 1),
    ("branch_missing", "is the stream alone", PLAIN, 1, 0),
    ("twice", "adds the stream twice", PLAIN, 2, 1),
    ("twice", "adds the branch twice", PLAIN, 1, 2),
    ("subtracted", "subtracts the branch", PLAIN, 1, -1),
    ("subtracted", "subtracts the stream", PLAIN + 1, -1, 1),
    ("scaled", "adds half of the branch", PLAIN, 1, 0.5),
    ("scaled", "is the mean of stream and branch", PLAIN, 0.5, 0.5),
    ("scaled", "is the sum over sqrt(2)", PLAIN, 0.5**0.5, 0.5**0.5),
    ("zero", "is zero", RARE, 0, 0),
)
"""The end of the name, what is done, rank, the factors of stream and branch."""


def residual(site: Site) -> Iterator[Hypothesis]:
    """Wrong sums of stream and branch."""
    observed, layers = observe(site), site.config.num_hidden_layers
    depths = (("sqrt(layers)", layers), ("sqrt(2 * layers)", 2 * layers), ("layers", layers**2))
    sums = (*_SUMS, *(("scaled", f"divides the branch by {text}", PLAIN + 1, 1, n**-0.5) for text, n in depths))

    def says(a: float, b: float) -> str:
        return f"is {_word(a, site)} × stream + {_word(b, site)} × branch"

    with np.errstate(all="ignore"):
        table = ((name, says, rank, _sum(a, b)) for name, says, rank, a, b in sums)
        yield from likely(site, observed, rows("residual", FIX, table))
        with_number = list(fitted(site, observed, "residual.scaled", FIX, lambda b: says(1, b),
                                  lambda b, site: _sum(1, b)(site), (1.0,), rank=PLAIN + 1))  # fmt: skip
        yield from with_number or fitted(site, observed, "residual.scaled", FIX, says,
                                         lambda a, b, site: _sum(a, b)(site), (1.0, 1.0), rank=PLAIN + 1)  # fmt: skip
        yield from likely(site, observed, rows("residual", FIX, _others()))
        yield from likely(site, observed, shifted(site, ["residual.shifted"] * 2, ["the stream", "the branch"], FIX))
        yield from casts(site, observed, "residual.half_precision", f"{FIX}; keep the stream's precision")
        yield from clamped(site, observed, "residual.clamped", FIX, (65504, 1e4, 1e3, 100, 10))


def _word(factor: float, site: Site) -> str:
    return named(factor, site.config) or f"{factor:.7g}"


def _sum(a: float, b: float) -> Wrong:
    return on_inputs(lambda stream, branch: a * stream + b * branch)


def _others() -> Iterator[tuple[str, str, Rank, Wrong]]:
    """The stream, the branch or the sum normed by one of the layer's norms; another stream; no sum at all."""
    for which, words in enumerate(("the sub-block's norm", "the layer's other norm")):
        yield "of_normed", f"adds the branch to the normed stream ({words})", PLAIN + which, _normed("stream", which)
        yield "branch_normed", f"norms the branch ({words})", PLAIN + 1 + which, _normed("branch", which)
        yield "sum_normed", f"norms the sum ({words}): post-norm", PLAIN + 1 + which, _normed("sum", which)
    yield "other_stream", "starts from the layer's input again (a parallel block)", PLAIN + 1, _with_input(1)
    yield "other_stream", "adds the layer's input once more", PLAIN + 1, _with_input(0, 1)
    yield "product", "multiplies stream and branch", PLAIN + 1, on_inputs(np.multiply)
    yield "product", "takes the larger of stream and branch", RARE + 1, on_inputs(np.maximum)


def _with_input(*parts: int) -> Wrong:
    def wrong(site: Site) -> Array | None:
        stream = site.values.value(f"{site.place.name.rpartition('.')[0]}.input", site.step)
        return None if stream is None else stream + sum(inputs(site)[part] for part in parts)

    return wrong


def _normed(point: str, which: int) -> Wrong:
    def wrong(site: Site) -> Array | None:
        stream, branch = inputs(site)
        norms = ("input_layernorm", "post_attention_layernorm")
        behind_attention = site.place.name.endswith("attn_residual")
        place = site.values.place(site.sibling(norms[behind_attention == bool(which)]))
        weight = None if place is None else site.checkpoint.get(place.parameters[0])
        if weight is None or weight.shape != stream.shape[-1:]:
            return None
        if point == "sum":
            return norm(site, stream + branch, weight)
        if point == "stream":
            return norm(site, stream, weight) + branch
        return stream + norm(site, branch, weight)

    return wrong


MISTAKES: Mapping[str, Mistakes] = {
    "residual": Mistakes((placement, residual, blocks)),
}
