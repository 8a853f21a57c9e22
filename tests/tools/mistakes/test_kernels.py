"""Mistakes of kernels, written out on a golden's own inputs: each is named, at whatever block, width or type.

It runs `mistakes.strides`, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from wrong_numbers import evidence, explanations, named

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.numbers.approximated import approximated
from qwen3_parity.diagnosis.findings.of_site import wrong_tap
from qwen3_parity.diagnosis.judged import judged
from qwen3_parity.mistakes.rms_norm import rows
from qwen3_parity.mistakes.split_keys import by_blocks
from qwen3_spec import ops
from qwen3_spec.ops import OPS
from qwen3_spec.ops.context import all_values
from qwen3_spec.site import Site

CASE = "decoder/plain"
LAYER = "decoder.layers.1"
ATTENTION = f"{LAYER}.merged_attn"
SCORES, PROBS, CONTEXT = (f"{ATTENTION}.{name}" for name in ("scores", "probs", "context"))
STREAM, HEADS, ACT, OUTPUT = "decoder.norm", f"{ATTENTION}.q_norm", f"{LAYER}.mlp.act", f"{LAYER}.output"
DOWN, QUERY, ROTATED = f"{LAYER}.mlp.down_proj", f"{ATTENTION}.q_proj", f"{ATTENTION}.q_rope"


def correct(site: Site) -> Array:
    return OPS[site.place.op].truth(site)[0].copy()


def behind(block: int, rest: Callable[[Site, Array], Array], axis: int = -1) -> Callable[[Site], Array]:
    """Other numbers where no whole block of an axis is."""

    def wrong(site: Site) -> Array:
        y = np.moveaxis(correct(site), axis, -1)
        start = y.shape[-1] - y.shape[-1] % block
        assert 0 < start < y.shape[-1]
        y[..., start:] = np.moveaxis(rest(site, correct(site)), axis, -1)[..., start:]
        return np.moveaxis(y, -1, axis)

    return wrong


def zeros(_: Site, y: Array) -> Array:
    return 0 * y


def rows_of_the_product(site: Site) -> Array:
    y = correct(site)
    flat = y.reshape(-1, y.shape[-1])
    flat[len(flat) // 4 * 4 :] = 0
    assert len(flat) % 4
    return flat.reshape(y.shape)


def counted(block: int, times: float, n: int) -> Array:
    assert 0 < n % block < n
    return np.where(np.arange(n) < n - n % block, 1.0, times)


def scored(site: Site, keys: Array | None = None, counts: Array | float = 1.0) -> Array:
    return ops.scores.forward(site.inputs[0] * counts, site.inputs[1] if keys is None else keys, site.scaling)


def weighed(site: Site, weight: Array | None = None, values: Array | None = None) -> Array:
    return ops.context.forward(
        site.inputs[0] if weight is None else weight, all_values(site) if values is None else values
    )


def product(site: Site, weight: Array) -> Array:
    return OPS["linear"].truth(replace(site, parameters={**site.parameters, "weight": weight}))[0]


def normed(site: Site, square: Array, weight: Array | None = None) -> Array:
    weight = site.parameters["weight"] if weight is None else weight
    return weight * rows(site) / np.sqrt(square + site.config.rms_norm_eps)


def squares(site: Site) -> Array:
    return np.square(rows(site))


def exponentials(site: Site, exp: Callable[[Array], Array] = np.exp) -> Array:
    scores, mask = site.inputs
    masked = np.where(mask[:, None], scores.astype(np.float64), -np.inf)
    less = masked - masked.max(axis=-1, keepdims=True)
    return np.where(np.isfinite(less), exp(np.maximum(less, -80)), 0)


def miscounted_sum(site: Site, times: float) -> Array:
    e = exponentials(site)
    return e / np.maximum((e * counted(4, times, e.shape[-1])).sum(axis=-1, keepdims=True), 1e-30)


def narrow(terms: Array, dtype: torch.dtype) -> Array:
    """`[..., n]` added up one by one."""
    total = torch.zeros(terms.shape[:-1], dtype=dtype)
    for k in range(terms.shape[-1]):
        total = total + torch.tensor(np.ascontiguousarray(terms[..., k])).to(dtype)
    return total.double().numpy()


def narrow_scores(site: Site) -> Array:
    groups = site.inputs[0].shape[1] // site.inputs[1].shape[1]
    keys = np.repeat(site.inputs[1], groups, axis=1)
    return narrow(site.inputs[0][:, :, :, None] * keys[:, :, None], torch.bfloat16) * site.scaling


def narrow_product(site: Site) -> Array:
    return narrow(site.inputs[0][..., None, :] * site.parameters["weight"], torch.float16)


def narrow_softmax(site: Site) -> Array:
    e = exponentials(site)
    return e / narrow(e, torch.bfloat16)[..., None]


def online(site: Site, power: int = 0) -> Array:
    """Blocks of 4 keys; a new maximum rescales the accumulator by a power of the factor: 0 not, -1 its inverse."""
    scores = site.values.value(SCORES, 0)
    mask = site.values.value(f"{ATTENTION}.mask", 0)
    assert scores is not None and mask is not None
    s = np.where(mask[:, None], scores.astype(np.float64), -np.inf)
    values = np.repeat(all_values(site), s.shape[1] // all_values(site).shape[1], axis=1)
    peak, total, out = (
        np.full(s.shape[:-1], -np.inf),
        np.zeros(s.shape[:-1]),
        np.zeros((*s.shape[:-1], values.shape[-1])),
    )
    for start in range(0, s.shape[-1], 4):
        part = s[..., start : start + 4]
        new = np.maximum(peak, part.max(axis=-1))
        weight = np.exp(part - new[..., None])
        total = total * np.exp(peak - new) + weight.sum(axis=-1)
        rescaled = out * (np.exp(power * (peak - new))[..., None] if start else 1)
        out, peak = rescaled + weight @ values[:, :, start : start + 4], new
    return np.swapaxes(out / total[..., None], 1, 2)


def exchanged(site: Site) -> Array:
    p = site.inputs[0].astype(np.float64)
    at = (p.shape[-1] + 1) // 2
    first, second = p[..., :at].sum(axis=-1, keepdims=True), p[..., at:].sum(axis=-1, keepdims=True)
    swapped = p[..., :at] / first * second, p[..., at:] / np.where(second > 0, second, 1) * first
    return weighed(site, np.concatenate(swapped, axis=-1))


def uncontiguous(x: Array) -> Array:
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(x.shape)


def along_keys(x: Array, heads: int) -> Array:
    return np.repeat(x, heads // x.shape[1], axis=2).reshape(x.shape[0], heads, *x.shape[2:])


def late_rows(weight: Array) -> Array:
    padded = np.concatenate([weight.reshape(-1), np.zeros(len(weight), weight.dtype)])
    return np.stack([padded[i * (weight.shape[1] + 1) :][: weight.shape[1]] for i in range(len(weight))])


def eight_bits(x: Array) -> Array:
    return torch.tensor(x).to(torch.float8_e4m3fn).float().numpy()


WRONG: dict[str, tuple[str, str, Callable[[Site], Array]]] = {
    "output channels": ("tail.zero", QUERY, behind(16, zeros)),
    "rows of a product": ("tail.zero", DOWN, rows_of_the_product),
    "heads": ("tail.zero", SCORES, behind(4, zeros, 1)),
    "components of the context": ("tail.zero", CONTEXT, behind(8, zeros)),
    "channels of an embedding": ("tail.zero", "decoder.embed_tokens", behind(16, zeros)),
    "an odd query": ("tail.repeated", CONTEXT, behind(2, lambda _, y: np.roll(y, 1, 1), 1)),
    "channels not activated": ("tail.undone", ACT, behind(64, lambda s, _: s.inputs[0] * s.inputs[1])),
    "channels not added": ("tail.undone", OUTPUT, behind(16, lambda s, _: s.inputs[0])),
    "components not weighted": ("tail.undone", HEADS, behind(4, lambda s, y: y / s.parameters["weight"])),
    "heads not rotated": ("tail.undone", ROTATED, behind(4, lambda s, _: s.inputs[0].swapaxes(1, 2), 1)),
    "head_dim twice": ("scores.doubled_terms", SCORES, lambda s: scored(s, counts=counted(8, 2, 10))),
    "inputs twice": ("linear.doubled_terms", QUERY, lambda s: product(s, s.parameters["weight"] * counted(16, 2, 40))),
    "keys twice": ("context.doubled_terms", CONTEXT,
                   lambda s: weighed(s, s.inputs[0] * counted(4, 2, s.inputs[0].shape[-1]))),
    "keys not summed": ("softmax.lost_terms", PROBS, lambda s: miscounted_sum(s, 0)),
    "keys summed twice": ("softmax.doubled_terms", PROBS, lambda s: miscounted_sum(s, 2)),
    "squares lost": ("norm.lost_terms", STREAM,
                     lambda s: normed(s, (squares(s) * counted(16, 0, 40)).mean(-1, keepdims=True))),
    "a padded width": ("norm.width", STREAM, lambda s: normed(s, squares(s).sum(-1, keepdims=True) / 48)),
    "a padded width of heads": ("norm.width", HEADS, lambda s: normed(s, squares(s).sum(-1, keepdims=True) / 16)),
    "two added to a weight": ("weight.constant_added", STREAM,
                              lambda s: normed(s, squares(s).mean(-1, keepdims=True), s.parameters["weight"] + 2)),
    "a number added to a matrix": ("weight.constant_added", QUERY, lambda s: product(s, s.parameters["weight"] + 0.25)),
    "bfloat16 scores": ("sum.half_precision", SCORES, narrow_scores),
    "a float16 product": ("sum.half_precision", DOWN, narrow_product),
    "a bfloat16 softmax": ("sum.half_precision", PROBS, narrow_softmax),
    "bfloat16 squares": ("sum.half_precision", STREAM,
                         lambda s: normed(s, narrow(squares(s), torch.bfloat16)[..., None] / 40)),
    "no rescale": ("context.unscaled_blocks", CONTEXT, online),
    "rescaled by the inverse": ("context.unscaled_blocks", CONTEXT, lambda s: online(s, -1)),
    "exchanged splits": ("context.merged_splits", CONTEXT, exchanged),
    "keys as contiguous": ("scores.strides", SCORES, lambda s: scored(s, uncontiguous(s.inputs[1]))),
    "values as contiguous": ("context.strides", CONTEXT, lambda s: weighed(s, values=uncontiguous(all_values(s)))),
    "keys repeated": ("scores.repeat_axis", SCORES, lambda s: scored(s, along_keys(s.inputs[1], 6))),
    "values repeated": ("context.repeat_axis", CONTEXT, lambda s: weighed(s, values=along_keys(all_values(s), 6))),
    "a leading dimension": ("weight.pitch", QUERY, lambda s: product(s, late_rows(s.parameters["weight"]))),
    "keys of 8 bits": ("scores.half_precision", SCORES, lambda s: scored(s, eight_bits(s.inputs[1]))),
    "a type read as another": ("weight.other_type", QUERY, lambda s: product(s, torch.tensor(s.parameters["weight"])
                               .bfloat16().view(torch.float16).float().numpy())),
}  # fmt: skip
test_a_mistake_of_a_kernel_is_named = named({key: (name, CASE, tap, w) for key, (name, tap, w) in WRONG.items()})


def test_the_width_that_a_norm_divides_by_is_said() -> None:
    hypotheses = explanations(evidence(CASE, *WRONG["a padded width"][1:]))
    assert "by 48, not by the 40" in hypotheses[0].says


def test_an_approximated_root_is_said_by_its_size_and_its_range() -> None:
    def wrong(site: Site) -> Array:
        return correct(site) * (1 + 1e-3 * np.sin(9 * squares(site).mean(axis=-1, keepdims=True)))

    best = explanations(evidence(CASE, STREAM, wrong))[0]
    assert best.name == "norm.approximated" and "up to 0.00" in best.says and "for mean squares from" in best.says


def coarse(x: Array) -> Array:
    return np.asarray(np.maximum(1 + x / 64, 0) ** 64)


APPROXIMATED = {
    "exp": (PROBS, lambda s: (e := exponentials(s, coarse)) / e.sum(axis=-1, keepdims=True)),
    "silu": (ACT, lambda s: s.inputs[1] * s.inputs[0] / (1 + coarse(-s.inputs[0]))),
}


@pytest.mark.parametrize("function", APPROXIMATED)
def test_an_approximated_function_is_said_by_its_name_and_its_range(function: str) -> None:
    tap = wrong_tap(judged(evidence(CASE, *APPROXIMATED[function])))
    assert tap is not None
    finding = approximated(tap)
    assert finding is not None and finding.weight > 0.5
    assert f"{function} is approximated" in finding.says and "of arguments from -" in finding.says


def test_noise_is_no_approximated_function() -> None:
    noise = np.random.default_rng(0).standard_normal
    tap = wrong_tap(judged(evidence(CASE, ACT, lambda s: correct(s) * (1 + 1e-3 * noise(correct(s).shape)))))
    assert tap is not None and approximated(tap) is None


def test_hidden_keys_with_a_low_score_count_where_nothing_is_rescaled() -> None:
    """The first block has no visible key: each of its scores is its maximum, and nobody takes it back."""
    scores = np.array([-1e9, -1e9, 0.5, 1.0])
    weights = by_blocks(scores, 2, 1, 1)
    expected = np.array([1.0, 1.0, np.exp(-0.5), 1.0])
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-12)
    np.testing.assert_allclose(by_blocks(scores, 2, 0, 0)[:2], 0)
