"""A norm where none belongs: what other ops' mistakes need of RMSNorm."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_spec import ops
from qwen3_spec.site import Result, Site


def norm(site: Site, x: Array, weight: Array | None = None) -> Array:
    """`x[..., n]` normed with the network's eps by `weight[n]`, or by weights of 1."""
    y = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + site.config.rms_norm_eps)
    return np.asanyarray(y if weight is None else weight * y)


def normed(site: Site, x: Array, weight: Array | None = None) -> Result:
    """The same with its rounding unit."""
    y = norm(site, np.asarray(x, np.float64), weight)
    return y, ops.rms_norm.unit(y, x)
