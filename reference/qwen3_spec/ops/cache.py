"""Keys and values that a decoder keeps: its own grow by a step's slots, the encoder's are filled once."""

import numpy as np

from qwen3_spec.arithmetic import Arithmetic, Array
from qwen3_spec.heads import heads_first
from qwen3_spec.op import Op
from qwen3_spec.site import Site


def _grows(site: Site, _arithmetic: Arithmetic) -> Array:
    new = site.inputs[0]
    new = heads_first(new, site.config.head_dim) if new.ndim == 3 else new
    return new if site.before is None else np.concatenate([site.before, new], axis=2)


def _once(site: Site, _arithmetic: Arithmetic) -> Array:
    if site.before is not None:
        return site.before
    # Keys that were rotated are heads first already; norms and projections are not.
    rotated = site.names[0].endswith("_rope")
    return site.inputs[0] if rotated else heads_first(site.inputs[0], site.config.head_dim)


OPS = (Op("cache", _grows, copies=True), Op("cache_once", _once, copies=True))
