"""What stands between the gradient of a projection and that of the scores: a rotation, QK-norm, or nothing."""

import numpy as np

from qwen3_spec.arithmetic import Array
from qwen3_spec.heads import side_by_side, split_heads
from qwen3_spec.op import Op
from qwen3_spec.ops import rms_norm, rope, scores
from qwen3_spec.site import Result, Site


def rotated_back(site: Site, dy: Array) -> Result:
    """Of the rotation, `[batch, heads, seq, head_dim]`, by the tables at the tap's positions."""
    name = site.place.name.removeprefix("gradient.")
    own = "encoder_" if ".encoder_" in name else ""
    cos, sin = (site.values.value(f"{name.partition('.')[0]}.{own}{table}", 0) for table in ("cos", "sin"))
    assert cos is not None and sin is not None
    return rope.backward(dy, cos, sin), rope.unit(dy, cos, -sin)


def _gradient(site: Site) -> Result:
    """Of what stands between a projection and the scores: the rotation, QK-norm, or nothing (unrotated keys)."""
    source, name = site.names[0], site.place.name.removeprefix("gradient.")
    if source.endswith("_norm"):
        x = split_heads(site.inputs[1], site.config.head_dim)
        norm = name.replace("encoder_k_proj", "k_proj").replace("_proj", "_norm") + ".weight"
        y, noise = rms_norm.backward_judged(
            site.inputs[0], x, np.asarray(site.checkpoint[norm]), site.config.rms_norm_eps
        )
        return y.reshape(site.inputs[1].shape), np.asarray(noise).reshape(site.inputs[1].shape)
    if source.endswith("_rope"):
        y, noise = rotated_back(site, site.inputs[0])
    else:
        y, noise = scores.half(site, scores.by_keys(site, site.case.config.num_key_value_heads))
    assert noise is not None
    if name.endswith("_norm"):
        return np.swapaxes(y, 1, 2), np.swapaxes(noise, 1, 2)
    return side_by_side(y), side_by_side(noise)


OPS = (Op("head_gradient", lambda site, _: _gradient(site)[0], both=_gradient),)
