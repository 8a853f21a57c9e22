"""A norm where none belongs: what other ops' mistakes need of RMSNorm."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_spec import ops
from qwen3_spec.site import Result, Site


def normed(site: Site, x: Array, weight: Array | None = None) -> Result:
    """`x[..., n]` normed with the network's eps by `weight[n]`, or by weights of 1, and its rounding unit."""
    y = ops.rms_norm.forward(x, np.ones(x.shape[-1]) if weight is None else weight, site.config.rms_norm_eps)
    return y, ops.rms_norm.unit(y, x)
