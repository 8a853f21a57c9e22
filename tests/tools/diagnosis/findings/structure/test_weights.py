"""A weight that is no tensor of the checkpoint is told by its structure; what no weight does is told as none."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from seeded import Compute, seeded, weights
from wrong_numbers import golden

from qwen3_golden import Array, pb
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.diagnosis.findings import Finding, findings
from qwen3_parity.diagnosis.findings.of_site import wrong_tap
from qwen3_parity.diagnosis.findings.structure.few_bits import GRIDS, SCALES
from qwen3_parity.diagnosis.findings.structure.weights import structure_of, weight_structure
from qwen3_parity.diagnosis.judged import judged
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

CASE = "encdec/ragged"
D = "decoder.layers.{layer}."
Q, K, V, O = (f"{D}merged_attn.{name}_proj" for name in "qkvo")  # noqa: E741
DOWN = f"{D}mlp.down_proj"
NO_CONTEXT = ("context", "probs", "scores", "act")
Weight = Callable[[Site, Array], Array]


def draws(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def of(weight: Weight) -> Compute:
    """The linear with another weight, rounded to float32 when it is stored."""

    def compute(site: Site) -> Result:
        stored = np.asarray(site.parameters["weight"], np.float32)
        changed = np.asarray(weight(site, stored), np.float32)
        return OPS["linear"].truth(replace(site, parameters={**site.parameters, "weight": changed}))

    return compute


def numbers(change: Callable[[Array, Site], Array]) -> Compute:
    """The linear's numbers changed afterwards."""

    def compute(site: Site) -> Result:
        y, unit = OPS["linear"].truth(site)
        return change(y, site), unit

    return compute


def by_block(weight: Array, size: int, change: Callable[[Array, Array], Array]) -> Array:
    """A weight whose blocks of a row are changed by a number of their own, 0.5 to 2."""
    parts = weight.reshape(len(weight), -1, size)
    return change(parts, draws(8).uniform(0.5, 2, (*parts.shape[:2], 1))).reshape(weight.shape)


OF_WEIGHTS = ("structure.", "weight.", "fit.weight")
"""Other findings are said beside these."""


def said(
    case: str, place: str, wrong: Compute, *, without: tuple[str, ...] = (), parameters: Sequence[Any] = ()
) -> list[Finding]:
    """What the numbers of a place in the second layer say."""
    candidate = replace(seeded(case, {place: wrong}, without=without), parameters=list(parameters))
    evidence = TapJudge.of(candidate, weights(case), golden(case)).evidence(candidate[place.format(layer=1), 0])
    assert isinstance(evidence, Evidence)
    tap = wrong_tap(judged(evidence))
    assert tap is not None and tap.wrong.any()
    return [part for part in findings(tap) if part.name.startswith(OF_WEIGHTS)]


def others() -> list[Any]:
    """Digests of none of the checkpoint's parameters."""
    return [pb.Parameter(name=part.name, dtype=part.dtype, sha256=bytes(32)) for part in golden(CASE).parameters]


def shuffled(count: int) -> Array:
    return draws(count).permutation(count)


def in_groups(w: Array, size: int, group: Callable[[Array], Array]) -> Array:
    """Each `size` numbers of a row by themselves, the rest of a row as well."""
    parts = [group(w[:, start : start + size]) for start in range(0, w.shape[1], size)]
    return np.concatenate(parts, axis=1)


def with_minimum(part: Array) -> Array:
    """4 bits from the smallest to the largest number, as ggml's q4_1."""
    low = part.min(1, keepdims=True)
    step = (part.max(1, keepdims=True) - low) / np.float32(15)
    return np.asarray(np.rint((part - low) / step) * step + low)


def by_largest(part: Array) -> Array:
    """4 bits, the number of the largest size is -8, as ggml's q4_0; the scale in float16."""
    largest = np.take_along_axis(part, np.abs(part).argmax(1)[:, None], 1)
    step = largest / np.float32(-8)
    levels = np.minimum(np.floor(part / step + np.float32(8.5)), 15) - 8
    return np.asarray(levels * step.astype(np.float16).astype(np.float32))


def eight_bits(part: Array) -> Array:
    step = np.abs(part).max(1, keepdims=True) / np.float32(127)
    return np.asarray(np.rint(part / step) * step)


def scales_of_rows_on_columns(w: Array) -> Array:
    step = np.abs(w).max(1, keepdims=True) / np.float32(127)
    return np.asarray(np.rint(w / step) * step.T)


def adapted(site: Site, w: Array) -> Array:
    random = draws(site.place.layer or 0)
    return np.asarray(w + 0.05 * random.standard_normal((len(w), 2)) @ random.standard_normal((2, w.shape[1])))


def inputs_in_eight_bits(site: Site) -> Result:
    x = np.asarray(site.inputs[0], np.float32)
    step = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    return OPS["linear"].truth(replace(site, inputs=(np.rint(x / step) * step,)))


def norm_of(site: Site) -> Array:
    return site.checkpoint[f"decoder.layers.{site.place.layer}.post_attention_layernorm.weight"]


FORMS: dict[str, tuple[str, Compute, str, str]] = {
    "columns by GPTQ's order": (O, of(lambda s, w: w[:, shuffled(60)]), "structure.columns_permuted", "21 positions of 60"),
    "columns, more than outputs": (DOWN, of(lambda s, w: w[:, shuffled(70)]), "structure.columns_permuted", "of 70 inputs"),
    "columns, halves exchanged": (K, of(lambda s, w: np.roll(w, 20, 1)), "structure.columns_permuted", "blocks of 20 inputs 1, 0"),
    "rows": (K, of(lambda s, w: w[shuffled(20)]), "weight.permuted", "rows are in another order"),
    "shards": (Q, of(lambda s, w: np.roll(w, 23, 0)), "weight.shards_shuffled", "rows 37 to 59 at 0 to 22, rows 0 to 36 at 23 to 59"),
    "parts exchanged": (Q, of(lambda s, w: w[[*range(24, 48), *range(24), *range(48, 60)]]), "weight.shards_shuffled",
        "order: rows 24 to 47 at 0 to 23, rows 0 to 23 at 24 to 47;"),
    "one row for two": (Q, of(lambda s, w: w[[1, *range(1, 60)]]), "structure.rows_repeated", "row 1 at 0"),
    "rows of two tensors": (
        K, of(lambda s, w: np.concatenate([w[:10], s.checkpoint[f"decoder.layers.{s.place.layer}.merged_attn.v_proj.weight"][10:]])),
        "weight.fused_layout", "v_proj.weight: 10",
    ),
    "rows scaled": (Q, of(lambda s, w: w * np.linspace(0.5, 2, 60)[:, None]), "structure.row_scaled", "for each row: 0.5, 0.52542"),
    "heads scaled": (Q, of(lambda s, w: w * np.repeat([1, 2, 3, 4, 5, 6], 10)[:, None]), "structure.row_scaled", "block of 10 rows: 1, 2, 3"),
    "columns scaled": (Q, of(lambda s, w: w * np.linspace(0.5, 2, 40)), "structure.column_scaled", "for each column: 0.5, 0.53846"),
    "the last columns left out": (Q, of(lambda s, w: w * (np.arange(40) < 32)), "structure.column_scaled", "32–39 are left out"),
    "a norm's weight folded in": (Q, of(lambda s, w: w * norm_of(s)), "structure.column_scaled", "1.post_attention_layernorm.weight: that is folded"),
    "one plus it": (Q, of(lambda s, w: w * (1 + norm_of(s))), "structure.column_scaled", "by 1 + decoder"),
    "a zero point": (Q, of(lambda s, w: w + np.linspace(0.1, 0.2, 60)[:, None]), "structure.row_shifted", "zero point"),
    "blocks scaled": (Q, of(lambda s, w: by_block(w, 10, lambda part, by: part * by)), "structure.block_scaled", "each block of 10 inputs"),
    "blocks scaled and rounded": (Q, of(lambda s, w: by_block(w, 10, lambda part, by: np.rint(512 * part) / 512 * by)), "structure.block_scaled", "as rounding would"),
    "zero points of blocks": (Q, of(lambda s, w: by_block(w, 10, lambda part, by: part + by)), "structure.block_shifted", "zero points?"),
    "an adapter": (Q, of(adapted), "structure.low_rank", "a matrix of rank 2"),
    "4 bits with a minimum": (V, of(lambda s, w: in_groups(w, 8, with_minimum)), "structure.blocks", "4 bits with a minimum (as q4_1), a scale for each 8"),
    "4 bits without": (V, of(lambda s, w: in_groups(w, 16, by_largest)), "structure.blocks", "as q4_0: the largest size is -8), a scale for each 16 numbers of a row, scales in float16"),
    "8 bits in blocks": (V, of(lambda s, w: in_groups(w, 32, eight_bits)), "structure.blocks", "8 bits without a minimum (the largest size is 127), a scale for each 32"),
    "8 bits by column": (V, of(lambda s, w: eight_bits(w.T).T), "structure.blocks", "a scale for each column"),
    "inputs in 8 bits": (DOWN, inputs_in_eight_bits, "structure.rounded_inputs", "a scale for each position"),
}  # fmt: skip


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("mistake", FORMS)
def test_the_structure_of_a_weight_is_told(mistake: str) -> None:
    place, wrong, name, words = FORMS[mistake]
    first, *_ = said(CASE, place, wrong)
    assert first.name == name and first.weight > 0.9 and words in first.says


TABLE = draws(1).standard_normal((97, 64)).astype(np.float32)
MEAN, ANOTHER, LAST = TABLE[:93].mean(0), draws(2).standard_normal((4, 64)), np.arange(97)[:, None] >= 93
ROWS = [
    (MEAN + 1e-4 * ANOTHER[0], "structure.rows_replaced", "rows 93–96 of its weight are not the checkpoint's but the mean of the other rows"),
    (0, "structure.row_scaled", "rows 93–96 of its weight are zero"),
    (np.concatenate([TABLE[:93], ANOTHER]), "weight.unknown", "rows 93–96 of its weight are as loaded another one by 1.3 of its size, in no form that is known"),
]  # fmt: skip


@pytest.mark.parametrize(("there", "name", "words"), ROWS, ids=["mean", "zeros", "unknown"])
def test_rows_that_are_others_are_told_by_their_numbers(there: Any, name: str, words: str) -> None:
    finding = structure_of("embed.weight", np.where(LAST, there, TABLE).astype(np.float32), {"embed.weight": TABLE})
    assert finding is not None and (finding.name, finding.says) == (name, f"{words}; the rest are the checkpoint's")


def test_the_blocks_of_a_few_rows_are_scaled_there() -> None:
    scaled = np.where(LAST, by_block(TABLE, 16, lambda part, by: part * by), TABLE).astype(np.float32)
    finding = structure_of("embed.weight", scaled, {"embed.weight": TABLE})
    assert finding is not None and finding.name == "structure.block_scaled" and " in rows 93–96: " in finding.says


def test_a_weight_of_small_random_numbers_is_no_scaled_one() -> None:
    small = of(lambda s, w: draws(9).standard_normal(w.shape) * 1e-3)
    assert not {finding.name for finding in said(CASE, Q, small)} & {
        "structure.block_scaled",
        "structure.block_shifted",
    }


@pytest.mark.parametrize("mistake", ["columns by GPTQ's order", "inputs in 8 bits"])
def test_the_structure_is_told_where_the_input_was_not_recorded(mistake: str) -> None:
    place, wrong, name, words = FORMS[mistake]
    first, *_ = said(CASE, place, wrong, without=NO_CONTEXT)
    assert first.name == name and words in first.says


def test_scales_along_the_wrong_axis_are_told() -> None:
    first, *_ = said("encdec/qwen2", Q, of(lambda s, w: scales_of_rows_on_columns(w)))
    assert first.name == "structure.scales_axis" and "the scales of its rows to its columns" in first.says


def test_the_head_of_equal_rows_is_told_in_shards() -> None:
    first, *_ = said("decoder/ragged_decode", "logits", of(lambda s, w: np.roll(w, 105, 0)))
    assert first.name == "weight.shards_shuffled" and "rows 106 to 210 at 0 to 104" in first.says


def test_digests_of_the_checkpoint_refute_another_weight() -> None:
    place, wrong, name, _ = FORMS["columns by GPTQ's order"]
    first, *_ = said(CASE, place, wrong, parameters=golden(CASE).parameters)
    assert first.name == name and "what was loaded is the checkpoint's by its digest" in first.says
    random = of(lambda s, w: w + 0.1 * draws().standard_normal(w.shape))
    assert not said(CASE, Q, random, parameters=golden(CASE).parameters)
    first, *_ = said(CASE, Q, random, parameters=others())
    assert first.name == "weight.unknown"
    assert not said(CASE, Q, NO_WEIGHT["noise in one batch row"], parameters=others())


def test_another_input_is_told_from_an_adapter_by_the_digest() -> None:
    along_a_column = of(lambda s, w: w + 0.01 * w[:, :1] @ w[:1])
    for parameters, name in ((others(), "structure.low_rank"), ([], "structure.input_channels")):
        first, *_ = said(CASE, V, along_a_column, parameters=parameters)
        assert first.name == name


NO_WEIGHT: dict[str, Compute] = {
    "noise": numbers(lambda y, s: y + draws().standard_normal(y.shape)),
    "noise in one batch row": numbers(lambda y, s: y + draws().standard_normal(y.shape) * (np.arange(len(y)) == 0)[:, None, None]),
    "a number for each batch row": numbers(lambda y, s: y + np.arange(1, len(y) + 1)[:, None, None]),
    "a vector for each batch row": numbers(lambda y, s: y + draws().standard_normal((len(y), 1, y.shape[-1]))),
    "an adapter for one batch row": numbers(lambda y, s: y + (np.arange(len(y)) == 0)[:, None, None] * s.inputs[0][..., :1] * draws().standard_normal(60)),
    "clamped": numbers(lambda y, s: np.clip(y, -0.5, 0.5)),
    "cubed": numbers(lambda y, s: y**3),
    "dropped out": numbers(lambda y, s: np.where(draws().random(y.shape) < 0.2, 0, y / 0.8)),
    "a factor for each position": numbers(lambda y, s: y * (1 + np.arange(y.shape[1]) / 10)[:, None]),
    "one position behind": numbers(lambda y, s: np.roll(y, 1, 1)),
    "one batch row behind": numbers(lambda y, s: np.roll(y, 1, 0)),
}  # fmt: skip


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("mistake", NO_WEIGHT)
def test_what_no_weight_does_is_told_as_none(mistake: str) -> None:
    assert [part.name for part in said(CASE, Q, NO_WEIGHT[mistake]) if part.weight > 0.1] == []


@pytest.mark.parametrize("place", [Q, O, DOWN])
def test_an_honest_product_has_no_structure(place: str) -> None:
    candidate = golden(CASE)
    evidence = TapJudge.of(candidate, weights(CASE), golden(CASE)).evidence(candidate[place.format(layer=1), 0])
    assert isinstance(evidence, Evidence)
    tap = wrong_tap(judged(evidence))
    assert tap is not None and tap.product() is not None and weight_structure(tap) is None


EXPERTS = draws(4).standard_normal((4, 64, 32)).astype(np.float32)
"""Experts' weights `[expert, in, out]`, as of a reference that computes x @ W."""
FLOAT4 = next(grid for grid in GRIDS if grid.says.startswith("MXFP4"))


def in_float4(experts: Array, scale: float = 1.0) -> Array:
    rows = experts.swapaxes(-1, -2).reshape(-1, 32)
    numbers = scale * FLOAT4.fit(rows, SCALES[0][1]).reshape(*experts.shape[:-2], experts.shape[-1], -1)
    return np.asarray(numbers.swapaxes(-1, -2), np.float32)


def said_of_experts(loaded: Array) -> tuple[str, str]:
    finding = structure_of("experts.proj", loaded, {"experts.proj": EXPERTS})
    assert finding is not None and finding.weight >= 0.99
    return finding.name, finding.says


def test_experts_whose_columns_make_outputs_are_told_in_few_bits() -> None:
    name, says = said_of_experts(in_float4(EXPERTS))
    assert name == "structure.blocks"
    assert "MXFP4" in says and "each 32 numbers of a row" in says and "by x @ W" in says


def test_a_bias_of_the_exponents_is_twice_the_scale() -> None:
    name, says = said_of_experts(in_float4(EXPERTS, 2.0))
    assert name == "structure.misread" and "its scales are twice what they should be" in says


def test_the_expert_that_is_otherwise_stands_first() -> None:
    loaded = in_float4(EXPERTS)
    loaded[2] = in_float4(EXPERTS[2], 2.0)
    name, says = said_of_experts(loaded)
    assert name == "structure.misread"
    assert says.startswith("expert 2: ") and "twice what they should be; experts 0–1, 3: " in says


def test_experts_in_each_others_place_are_told_in_few_bits() -> None:
    name, says = said_of_experts(in_float4(EXPERTS[[1, 0, 2, 3]]))
    assert name.startswith("weight.") and "in another order" in says and "MXFP4" in says
