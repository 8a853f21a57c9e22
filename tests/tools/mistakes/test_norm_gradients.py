"""Wrong ways back through RMSNorm and grouped heads, by torch in float32, get their mistakes' names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.autograd import grad
from wrong_numbers import Wrong, named

from qwen3_golden import Array
from qwen3_spec.site import Site

AT_STREAM = ("training/tied", "gradient.decoder.layers.1.output")
AT_WEIGHT = ("training/tied", "gradient.decoder.norm.weight")
Forward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""The output of a norm whose derivative is taken, of x, weight and 1 / RMS."""


def by_x(forward: Forward) -> Wrong:
    """The gradient by x of the final norm, whose output is another function of x."""

    def wrong(site: Site) -> Array:
        dy, x = (torch.tensor(np.asarray(value, np.float32)) for value in site.inputs)
        weight = torch.tensor(np.asarray(site.checkpoint[site.place.parameters[0]], np.float32))
        x.requires_grad_()
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + site.config.rms_norm_eps)
        return grad(forward(x, weight, r), x, dy)[0].numpy()

    return wrong


def by_weight(forward: Forward) -> Wrong:
    """The gradient by its weight, likewise."""

    def wrong(site: Site) -> Array:
        dy, x = (torch.tensor(np.asarray(value, np.float32)) for value in site.inputs)
        weight = torch.tensor(np.asarray(site.checkpoint[site.place.name.removeprefix("gradient.")], np.float32))
        weight.requires_grad_()
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + site.config.rms_norm_eps)
        return grad(forward(x, weight, r), weight, dy)[0].numpy()

    return wrong


def by_both(site: Site) -> Array:
    """The gradient of a block whose residual is what its norm gives: all of it goes through the norm."""
    skip, dy, x = (torch.tensor(np.asarray(value, np.float32)) for value in site.inputs)
    weight = torch.tensor(np.asarray(site.checkpoint[site.place.parameters[0]], np.float32))
    x.requires_grad_()
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + site.config.rms_norm_eps)
    return grad(weight * x * r, x, dy + skip)[0].numpy()


def of_last_block(site: Site) -> Array:
    """A mean term whose accumulator each block of 8 channels overwrites."""
    dy, x = (torch.tensor(np.asarray(value, np.float32)) for value in site.inputs)
    weight = torch.tensor(np.asarray(site.checkpoint[site.place.parameters[0]], np.float32))
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + site.config.rms_norm_eps)
    first = (x.shape[-1] - 1) // 8 * 8
    mean = (weight * dy * x * r)[..., first:].sum(-1, keepdim=True) / x.shape[-1]
    return (r * (weight * dy - x * r * mean)).numpy()


AT_BOTH = ("training/tied", "gradient.decoder.layers.1.attn_residual")

test_a_wrong_gradient_of_a_norm_is_named = named(
    {
        "root detached": ("gradient.norm_mean", *AT_STREAM, by_x(lambda x, w, r: w * x * r.detach())),
        "no weight": ("gradient.norm_weight", *AT_STREAM, by_x(lambda x, w, r: x * r)),
        "the weight twice": ("gradient.norm_weight", *AT_STREAM, by_x(lambda x, w, r: w * w * x * r)),
        "no last factor": ("gradient.norm_root", *AT_STREAM, by_x(lambda x, w, r: w * x * r / r.detach())),
        "x is not normed": ("gradient.norm_input", *AT_WEIGHT, by_weight(lambda x, w, r: w * x)),
        "the weight in its own": ("gradient.norm_weight", *AT_WEIGHT, by_weight(lambda x, w, r: w * w / 2 * x * r)),
        "a sum of the last block alone": ("gradient.norm_mean", *AT_STREAM, of_last_block),
        "the residual through the norm": ("gradient.skip_normed", *AT_BOTH, by_both),
    }
)  # fmt: skip
