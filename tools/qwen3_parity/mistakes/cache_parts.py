"""What a cache is made of: what it held, and what a step adds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qwen3_golden import Array
from qwen3_spec.heads import heads_first
from qwen3_spec.site import Result, Site

Contents = Callable[[Array, Array, Site], "Array | None"]
"""What a cache holds, of what it held `[batch, kv_heads, past, head_dim]` and what is new; None where neither fits."""


def parts(site: Site) -> tuple[Array, Array]:
    """What the cache held before, `[batch, kv_heads, past, head_dim]`, and what this step adds."""
    new = form(site, site.inputs[0])
    before = site.before if site.before is not None else new[:, :, :0]
    return before, new


def form(site: Site, values: Array) -> Array:
    """Projections and norms as `[batch, kv_heads, key, head_dim]`; rotated keys and caches stay as they are."""
    kv_heads, dim = site.config.num_key_value_heads, site.config.head_dim
    if values.ndim == 4 and values.shape[1] == kv_heads and values.shape[2] != kv_heads:
        return values
    rotated = values.ndim == 4 and site.names and site.names[0].endswith("_rope")
    return values if rotated else heads_first(values, dim)


def joined(*parts: Array) -> Array:
    """One behind the other, slot by slot."""
    return np.concatenate(parts, axis=2)


def exact(contents: Contents) -> Callable[[Site], Result | None]:
    """A cache `[batch, kv_heads, key, head_dim]` with these contents; numbers are stored, so there is no unit."""

    def compute(site: Site) -> Result | None:
        if site.inputs:
            before, new = parts(site)
        elif site.before is not None:
            before, new = site.before, site.before[:, :, :0]
        else:
            return None
        try:
            held = contents(before, new, site)
        except ValueError:
            return None
        return None if held is None else (held, None)

    return compute
