"""Wrong parts that only the classic encoder has: embeddings and positions, the fused projection, its activation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from qwen3_parity.mistakes.formulas import Formula, Wrong, on_inputs
from qwen3_parity.mistakes.generic import casts
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.observed import likely, observe
from qwen3_parity.mistakes.ranks import PLAIN, Rank
from qwen3_parity.mistakes.rounding import ROUNDED
from qwen3_spec.classic_config import classic_config
from qwen3_spec.site import Site

_SUM = "token embeddings × sqrt(hidden_size), where the network scales them, + position embeddings"


def scaled_sum(site: Site) -> Iterator[Hypothesis]:
    """The scale left out, twice, divided by, or on the positions too; a part left out."""
    root = site.config.hidden_size**0.5
    scale = classic_config(site).embedding_scale
    rounded = {kind: float(to(np.array([scale], np.float32))[0]) for kind, to in ROUNDED}
    table: tuple[tuple[str, str, float, float, Rank], ...] = (
        ("embedding.scaled", "does not multiply the tokens by sqrt(hidden_size)", 1, 1, PLAIN),
        ("embedding.scaled", "multiplies the tokens by sqrt(hidden_size)", root, 1, PLAIN),
        ("embedding.scaled", "multiplies the tokens by sqrt(hidden_size) twice", root * root, 1, PLAIN),
        ("embedding.scaled", "divides the tokens by sqrt(hidden_size)", 1 / root, 1, PLAIN),
        ("embedding.scaled", "multiplies the positions by sqrt(hidden_size) too", scale, root, PLAIN),
        ("embedding.scaled", "multiplies the positions, not the tokens, by sqrt(hidden_size)", 1, root, PLAIN + 1),
        ("embedding.scaled", "multiplies the tokens by sqrt(head_dim)", site.config.head_dim**0.5, 1, PLAIN + 1),
        *(("embedding.scale_rounded", f"rounds the tokens' scale to {kind}: {number:g}", number, 1, PLAIN + 1)
          for kind, number in rounded.items()),
        ("positions.missing", "adds no positions", scale, 0, PLAIN),
        ("positions.missing", "adds no positions and does not scale", 1, 0, PLAIN + 1),
        ("positions.twice", "adds the positions twice", scale, 2, PLAIN),
        ("positions.subtracted", "subtracts the positions", scale, -1, PLAIN),
        ("embedding.missing", "is the positions alone", 0, 1, PLAIN + 1),
    )  # fmt: skip
    sums = (
        Hypothesis(name, says, _SUM, Formula(_weighted(token_scale, position_scale)), rank)
        for name, says, token_scale, position_scale, rank in table
        if (token_scale, position_scale) != (scale, 1)
    )
    yield from likely(site, observe(site), sums)
    yield from casts(site, observe(site), "embedding.half_precision", _SUM)


def _weighted(token_scale: float, position_scale: float) -> Wrong:
    return on_inputs(lambda tokens, positions: token_scale * tokens + position_scale * positions)


MISTAKES: Mapping[str, Mistakes] = {
    "scaled_sum": Mistakes((scaled_sum,)),
}
