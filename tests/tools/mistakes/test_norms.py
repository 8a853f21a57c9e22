"""Wrong norms, computed by torch in float32, get the names of their mistakes."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import layer_norm, normalize
from wrong_numbers import evidence, explanations, first_name, named

from qwen3_golden import Array
from qwen3_spec.site import Site

CASE, STREAM, HEADS = "encdec/window", "decoder.layers.1.input_layernorm", "decoder.layers.1.merged_attn.q_norm"
EPS, HEAD_DIM = 3e-3, 10
Norm = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def mean_square(x: torch.Tensor) -> torch.Tensor:
    return (x * x).mean(-1, keepdim=True)


def correct(x: torch.Tensor, w: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    return w * x * torch.rsqrt(mean_square(x) + eps)


def of(norm: Norm) -> Callable[[Site], Array]:
    """The norm on a site's numbers, heads split where it has some."""

    def wrong(site: Site) -> Array:
        x, w = torch.tensor(site.inputs[0]), torch.tensor(site.parameters["weight"])
        x = x.unflatten(-1, (-1, HEAD_DIM)) if site.place.op == "head_norm" and x.ndim == 3 else x
        return norm(x, w).float().numpy()

    return wrong


NORMS: dict[str, tuple[str, Norm]] = {
    "a common eps": ("norm.eps", lambda x, w: correct(x, w, 1e-6)),
    "an unheard-of eps": ("norm.eps", lambda x, w: correct(x, w, 4.321e-3)),
    "lanes of 1 behind a row": ("norm.padded_lanes", lambda x, w: correct(x, w, EPS + (-x.shape[-1] % 64) / x.shape[-1])),
    "more than any eps": ("norm.constant_added", lambda x, w: correct(x, w, 0.37)),
    "no eps": ("norm.eps", lambda x, w: correct(x, w, 0.0)),
    "eps outside": ("norm.eps_outside_root", lambda x, w: w * x / (mean_square(x).sqrt() + EPS)),
    "eps as floor": ("norm.eps_as_floor", lambda x, w: w * x / mean_square(x).clamp(min=EPS).sqrt()),
    "LayerNorm": ("norm.layernorm", lambda x, w: layer_norm(x, x.shape[-1:], w, eps=EPS)),
    "mean subtracted": ("norm.layernorm", lambda x, w: (x - x.mean(-1, keepdim=True)) * w * torch.rsqrt(mean_square(x) + EPS)),
    "deviation": ("norm.variance", lambda x, w: w * x * torch.rsqrt(x.var(-1, keepdim=True, correction=0) + EPS)),
    "n - 1": ("norm.bessel", lambda x, w: w * x * torch.rsqrt((x * x).sum(-1, keepdim=True) / (x.shape[-1] - 1) + EPS)),
    "sum": ("norm.sum_not_mean", lambda x, w: w * x * torch.rsqrt((x * x).sum(-1, keepdim=True) + EPS)),
    "L2": ("norm.l2", lambda x, w: w * normalize(x, dim=-1)),
    "L1": ("norm.l1", lambda x, w: w * x / (x.abs().mean(-1, keepdim=True) + EPS)),
    "no root": ("norm.no_root", lambda x, w: w * x / (mean_square(x) + EPS)),
    "1 + weight": ("norm.one_plus_weight", lambda x, w: correct(x, 1 + w)),
    "no weight": ("norm.no_weight", lambda x, w: correct(x, torch.ones_like(w))),
    "weight alone": ("norm.weight_only", lambda x, w: w * x),
    "left out": ("norm.no_norm", lambda x, w: x),
    "eps in the count": ("norm.eps_in_count", lambda x, w: w * x * torch.rsqrt((x * x).sum(-1, keepdim=True) / (x.shape[-1] + EPS))),
    "of squares": ("norm.squared_input", lambda x, w: correct(x * x, w)),
    "squares in the place of x": ("norm.squared_input", lambda x, w: x * correct(x, w)),
    "twice": ("norm.twice", lambda x, w: correct(correct(x, w), w)),
    "half of a row": ("norm.partial", lambda x, w: w * x * torch.rsqrt(mean_square(x[..., : x.shape[-1] // 2]) + EPS)),
    "over positions": ("norm.axis", lambda x, w: w * x * torch.rsqrt((x * x).mean(1, keepdim=True) + EPS)),
    "clamped": ("norm.clamped", lambda x, w: correct(x, w).clamp(-0.9, 0.9)),
    "an unheard-of factor": ("norm.scaled", lambda x, w: 1.37 * correct(x, w)),
    "a coarse root": ("norm.approximated", lambda x, w: w * x * (torch.rsqrt(mean_square(x) + EPS) * (1 + 1e-3 * x[..., :1].sin()))),
    "bfloat16 input": ("norm.half_precision", lambda x, w: correct(x.bfloat16().float(), w)),
    "bfloat16 output": ("norm.half_precision", lambda x, w: correct(x, w).bfloat16()),
    "float16 mean": ("norm.half_precision", lambda x, w: w * x * torch.rsqrt(mean_square(x).half().float() + EPS)),
    "rounded weight": ("weight.rounded", lambda x, w: correct(x, w.bfloat16().float())),
    "big-endian weight": ("weight.byte_order", lambda x, w: correct(x, torch.tensor(w.numpy().byteswap()))),
    "rolled weight": ("weight.shifted", lambda x, w: correct(x, w.roll(1))),
    "one channel": ("weight.unknown", lambda x, w: correct(x, torch.cat((torch.full((1,), 0.1234), w[1:])))),
    "random weight": ("weight.unknown", lambda x, w: correct(x, torch.rand(w.shape, generator=torch.Generator().manual_seed(1)))),
    "over all heads": ("norm.all_heads", lambda x, w: w * x * torch.rsqrt((x * x).mean((-1, -2), keepdim=True) + EPS)),
    "float32": ("right", correct),
}  # fmt: skip
ON_HEADS = (
    *("a common eps", "LayerNorm", "1 + weight", "no weight", "left out", "weight alone", "twice", "bfloat16 input"),
    *("float32", "over all heads"),
)
test_a_wrong_norm_is_named = named(
    {key: (name, CASE, STREAM, of(norm)) for key, (name, norm) in NORMS.items() if key != "over all heads"}
    | {f"{key}, of heads": (NORMS[key][0], CASE, HEADS, of(NORMS[key][1])) for key in ON_HEADS}
)


def test_two_mistakes_in_one_norm_are_named_together() -> None:
    tap_evidence = evidence(CASE, STREAM, of(lambda x, w: (1 + w) * x / (mean_square(x).sqrt() + EPS)))
    assert explanations(tap_evidence)[0].says == "multiplies by 1 + weight and adds eps behind the root"


def test_an_eps_is_told_in_numbers() -> None:
    tap_evidence = evidence(CASE, STREAM, of(lambda x, w: correct(x, w, 1e-5)))
    assert explanations(tap_evidence)[0].says == "uses eps 1e-05 instead of 0.003"


@pytest.mark.parametrize(
    ("tap", "norm_weight"),
    [
        (STREAM, "decoder.layers.2.input_layernorm.weight"),
        (STREAM, "decoder.layers.1.post_attention_layernorm.weight"),
        (STREAM, "encoder.layers.1.input_layernorm.weight"),
        (HEADS, "decoder.layers.1.merged_attn.k_norm.weight"),
    ],
)
def test_the_weight_of_another_norm_is_named(tap: str, norm_weight: str) -> None:
    def wrong(site: Site) -> Array:
        return of(lambda x, w: correct(x, torch.tensor(site.checkpoint[norm_weight])))(site)

    assert first_name(CASE, tap, wrong) == "weight.other_tensor"
