"""How each op that only the classic encoder has is computed again from a site; `recompute` has the others."""

from __future__ import annotations

from collections.abc import Callable

from qwen3_parity.blame.site import Result, Site
from qwen3_spec import classic_ops
from qwen3_spec.classic_config import ClassicConfig


def classic_config(site: Site) -> ClassicConfig:
    """The configuration of a classic encoder's site."""
    assert isinstance(site.config, ClassicConfig)
    return site.config


def _layer_norm(site: Site) -> Result:
    (x,), eps = site.inputs, classic_config(site).layer_norm_eps
    weight, bias = site.parameters["weight"], site.parameters["bias"]
    y = classic_ops.layer_norm(x, weight, bias, eps)
    return y, classic_ops.layer_norm_unit(y, x, weight, bias, eps)


def _activation(site: Site) -> Result:
    x, act = site.inputs[0], site.config.hidden_act
    y = classic_ops.activation(x, act)
    return y, classic_ops.activation_unit(y, x, act)


def _scaled_sum(site: Site) -> Result:
    tokens, positions = site.inputs
    scale = classic_config(site).embedding_scale
    return (
        classic_ops.scaled_sum(tokens, positions, scale),
        classic_ops.scaled_sum_unit(tokens, positions, scale),
    )


def _split_heads(site: Site) -> Result:
    part = site.place.name.rpartition(".")[2]
    return classic_ops.split_heads(site.inputs[0], part, site.config.num_attention_heads), None


CLASSIC_OPS: dict[str, Callable[[Site], Result]] = {
    "layer_norm": _layer_norm,
    "activation": _activation,
    "scaled_sum": _scaled_sum,
    "split_heads": _split_heads,
}
