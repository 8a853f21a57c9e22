"""The position of every token, counted without padding."""

import numpy as np

from qwen3_spec.arithmetic import Arithmetic, Array
from qwen3_spec.op import Op
from qwen3_spec.site import Site


def counted(mask: Array) -> Array:
    """Positions that do not count padding, `cumsum(mask) - 1` clamped at 0; `mask[batch, seq]` -> int64, same shape."""
    counted: Array = np.cumsum(mask.astype(bool), axis=-1, dtype=np.int64) - 1
    return np.maximum(counted, 0)


def at_site(site: Site, _arithmetic: Arithmetic) -> Array:
    """The positions that the case is given for this step."""
    return site.this_step(site.inputs[0])


OPS = (Op("position_ids", at_site),)
