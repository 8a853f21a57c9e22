"""What stands between the gradient of a projection and that of the scores: a rotation, QK-norm, or nothing."""

import numpy as np

from qwen3_spec.arithmetic import Arithmetic, Array
from qwen3_spec.heads import side_by_side, split_heads
from qwen3_spec.op import Op
from qwen3_spec.ops import rms_norm, rope, scores
from qwen3_spec.site import Site


def _forward_name(site: Site) -> str:
    return site.place.name.removeprefix("gradient.")


def _tables(site: Site) -> tuple[Array, Array]:
    """cos and sin at the tap's positions."""
    name = _forward_name(site)
    half = "encoder_" if ".encoder_" in name else ""
    cos, sin = (site.values.value(f"{name.partition('.')[0]}.{half}{table}", 0) for table in ("cos", "sin"))
    assert cos is not None and sin is not None
    return cos, sin


def _normed(site: Site) -> tuple[Array, Array, Array, float]:
    """The gradient of the norm's output, its input and its weight, head by head, and eps."""
    norm = _forward_name(site).replace("encoder_k_proj", "k_proj").replace("_proj", "_norm") + ".weight"
    dy, x = site.inputs
    return dy, split_heads(x, site.config.head_dim), np.asarray(site.checkpoint[norm]), site.config.rms_norm_eps


def _laid_out(site: Site, heads_first: Array) -> Array:
    """As the tap has it, of `[batch, heads, seq, head_dim]`."""
    return np.swapaxes(heads_first, 1, 2) if site.place.name.endswith("_norm") else side_by_side(heads_first)


def _gradient(site: Site, arithmetic: Arithmetic) -> Array:
    source = site.names[0]
    if source.endswith("_norm"):
        return rms_norm.by_input(*_normed(site), arithmetic=arithmetic).reshape(site.inputs[1].shape)
    if source.endswith("_rope"):
        return _laid_out(site, rope.backward(site.inputs[0], *_tables(site), arithmetic=arithmetic))
    return _laid_out(site, scores.keys_gradient(site, arithmetic))


def _gradient_unit(site: Site, y: Array) -> Array:
    source = site.names[0]
    if source.endswith("_norm"):
        dy, x, weight, eps = _normed(site)
        return rms_norm.by_input_unit(y.reshape(dy.shape), dy, x, weight, eps).reshape(y.shape)
    if source.endswith("_rope"):
        cos, sin = _tables(site)
        return _laid_out(site, rope.unit(site.inputs[0], cos, -sin))
    return _laid_out(site, scores.keys_gradient_unit(site))


OPS = (Op("head_gradient", _gradient, _gradient_unit),)
