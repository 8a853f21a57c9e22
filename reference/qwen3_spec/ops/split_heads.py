"""The thirds of a fused projection, split into heads."""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.site import Site

PARTS = ("q", "k", "v")
"""The thirds, in their order."""


def forward(qkv: Array, part: str, heads: int, *, arithmetic: Arithmetic = FLOAT64) -> Array:
    """A third of a fused projection `[batch, seq, 3 * hidden]` -> `[batch, heads, seq, head_dim]`; exact.

    `part` is "q", "k" or "v": all of q stands first, head by head, then all of k, then all of v. Source: torch
    `MultiheadAttention.in_proj_weight`.
    """
    batch, length, width = qkv.shape
    parts = arithmetic.cast(qkv).reshape(batch, length, len(PARTS), heads, width // (len(PARTS) * heads))
    return np.swapaxes(parts[:, :, PARTS.index(part)], 1, 2)


def at_site(site: Site, arithmetic: Arithmetic) -> Array:
    """The third of a place's input that its name says."""
    part = site.place.name.rpartition(".")[2]
    return forward(site.inputs[0], part, site.config.num_attention_heads, arithmetic=arithmetic)


OPS = (Op("split_heads", at_site, copies=True),)
