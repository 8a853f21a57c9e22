"""An op that is wrong alone is judged with what it may have absorbed; a mistake stays a mistake."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pb, read, tensor
from qwen3_parity.blame import OpVerdict, replay
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.judge.budgets import headroom

GOLDEN = read(GOLDEN_ROOT / "cases" / "decoder" / "plain.pb")
WEIGHTS = weights_of(GOLDEN, GOLDEN_ROOT / "checkpoints")
LAYER = "decoder.layers.1"


def with_taps(taps: dict[str, Array]) -> Recording:
    """The golden with other numbers in some taps of the prefill."""
    return replace(GOLDEN, tensors=[_with(item, taps.get(item.info.name)) for item in GOLDEN])


def _with(item: Tensor, array: Array | None) -> Tensor:
    if array is None or item.info.step:
        return item
    info = item.info
    return tensor(info.name, array.astype(np.float32), step=0, dtype=info.dtype, axes=tuple(info.axes), op=info.op)


def tap(name: str) -> Array:
    return GOLDEN[f"{LAYER}.{name}", 0].array


def verdict_of(candidate: Recording, name: str) -> OpVerdict:
    return next(
        verdict
        for verdict in replay(candidate, WEIGHTS, GOLDEN)
        if (verdict.name, verdict.step) == (f"{LAYER}.{name}", 0)
    )


def accumulated() -> Array:
    """The stream with the MLP's last product added onto it, term after term in float32."""
    total = tap("attn_residual").copy()
    x, weight = tap("mlp.act"), np.asarray(WEIGHTS[f"{LAYER}.mlp.down_proj.weight"])
    for term in range(x.shape[-1]):
        total = total + x[..., term, None] * weight[:, term]
    return np.asarray(total)


def test_a_product_that_is_added_onto_the_residual_term_by_term_is_right() -> None:
    output = accumulated()
    verdict = verdict_of(with_taps({f"{LAYER}.output": output}), "output")
    assert verdict.passed and f"{LAYER}.mlp.down_proj" in verdict.others
    residual, branch = tap("attn_residual").astype(np.float64), tap("mlp.down_proj").astype(np.float64)
    units = np.abs(output - (residual + branch)) / (2**-24 * (np.abs(residual) + np.abs(branch)))
    assert units.max() > headroom("op", "residual").max, "the sum of what was recorded accuses it"


@pytest.mark.parametrize("factor", [1 + 1e-4, 1 + 1e-5])
def test_a_sum_that_is_slightly_wrong_is_wrong_through_the_product_too(factor: float) -> None:
    assert not verdict_of(with_taps({f"{LAYER}.output": accumulated() * factor}), "output").passed


def test_what_stays_wrong_is_blamed_alone_and_not_with_what_it_might_have_absorbed() -> None:
    verdict = verdict_of(with_taps({f"{LAYER}.output": accumulated() * 2}), "output")
    assert not verdict.passed and not verdict.others


def test_a_branch_that_is_left_out_is_wrong_through_the_product_too() -> None:
    assert not verdict_of(with_taps({f"{LAYER}.output": tap("attn_residual")}), "output").passed


def test_keys_rotated_by_another_kernel_on_their_way_into_the_cache_are_right() -> None:
    k, cos, sin = tap("merged_attn.k_norm"), GOLDEN["decoder.cos", 0].array, GOLDEN["decoder.sin", 0].array
    k = np.swapaxes(k.reshape(*k.shape[:2], -1, cos.shape[-1]), 1, 2).astype(np.float64)
    half = cos.shape[-1] // 2
    a, b, c, s = k[..., :half], k[..., half:], cos[:, None, :, :half], sin[:, None, :, :half]
    rotated = np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(np.float32)
    assert (rotated != tap("merged_attn.k_rope")).any()
    verdict = verdict_of(with_taps({f"{LAYER}.merged_attn.cache_keys": rotated}), "merged_attn.cache_keys")
    assert verdict.passed and f"{LAYER}.merged_attn.k_rope" in verdict.others


def test_a_cache_that_is_rounded_to_bfloat16_is_wrong() -> None:
    keys = tap("merged_attn.cache_keys")
    rounded = (keys.view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert not verdict_of(with_taps({f"{LAYER}.merged_attn.cache_keys": rounded}), "merged_attn.cache_keys").passed


def test_a_product_that_is_wrong_is_not_what_its_reader_absorbs() -> None:
    wrong = with_taps({f"{LAYER}.mlp.down_proj": tap("mlp.down_proj") * 1.5})
    diagnosis = diagnose(GOLDEN, wrong, WEIGHTS)
    assert not diagnosis.faults and [misplaced.place for misplaced in diagnosis.misplaced] == [
        "decoder.layers.{layer}.mlp.down_proj"
    ]


def test_a_sum_of_rounded_parts_is_for_half_precision_alone() -> None:
    """In float32 a part's rounding is far below bfloat16's: it excuses nothing."""
    assert GOLDEN.run.arithmetic == pb.ARITHMETIC_F32
    o_proj = tap("merged_attn.o_proj")
    rounded = (o_proj.view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert not verdict_of(with_taps({f"{LAYER}.merged_attn.o_proj": rounded}), "merged_attn.o_proj").passed
