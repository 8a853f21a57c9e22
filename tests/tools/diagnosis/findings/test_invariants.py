"""What an op never breaks tells what was broken, whether a formula judges the tap or a golden's graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from seeded import changed, fault, weights
from wrong_numbers import evidence, golden, said
from wrong_slices import slice_of

from qwen3_golden import Array, tensor
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.findings import Finding, findings
from qwen3_parity.slices.stored import graph_of
from qwen3_spec.site import Site

Change = Callable[[Array], Array]
PLAIN, RAGGED, GRAPH = "decoder/plain", "encdec/ragged", "model/qwen3_moe"
LAYER, MODEL = "decoder.layers.1", "model.layers.1"
ATTENTION, GRAPHS = f"{LAYER}.merged_attn", f"{MODEL}.self_attn"


def findings_at(case: str, tap: str, change: Change, step: int = 0) -> list[Finding]:
    """Everything that is said of a tap whose numbers were changed."""
    if case.startswith("model/"):
        return findings(slice_of(case, tap, change, step))
    return said(evidence(case, tap, lambda site: change(golden(case)[tap, step].values().copy()), step))


def at(tokens: Array, axis: int, ndim: int) -> Array:
    return np.asarray(tokens).reshape([-1 if i == axis else 1 for i in range(ndim)])


def leaking(p: Array) -> Array:
    return p / (1 + np.linspace(0.1, 0.5, p.shape[2], dtype=np.float32)[:, None])


def last_hidden(p: Array) -> Array:
    p[..., 2:4] = 0
    return p / np.maximum(p.sum(-1, keepdims=True), 1e-30)


def masked_late(p: Array) -> Array:
    p[..., 2:4] = 0
    return p


def first_key_visible(p: Array) -> Array:
    """The first key is seen by the first query of each row, at a weight of 0.25, though hidden."""
    hidden = p[:, :, :, -1:] == 0
    return np.where(hidden, 0.75 * p, p) + np.where(hidden, np.eye(1, p.shape[-1], p.shape[-1] - 1) * 0.25, 0)


def tightened(c: float) -> Change:
    return lambda y: np.clip(y, -c, c)


def saturated(y: Array) -> Array:
    """Decoded keys by the largest of each channel of each head of the prompt, as int8 with the prompt's scales."""
    c = np.abs(y[:, :, :5]).max(2, keepdims=True)
    return np.concatenate([y[:, :, :5], np.clip(y[:, :, 5:], -c, c)], 2)


def e4m3(y: Array) -> Array:
    scale = np.float32(np.abs(y).max() / 448)
    x = y.astype(np.float64) / scale
    step = np.exp2(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-6))) - 3)
    return np.rint(x / step) * step * scale


def four_bits(y: Array) -> Array:
    parts = y.reshape(-1, 8)
    scale = np.abs(parts).max(1, keepdims=True) / 7
    return (np.rint(parts / scale) * scale).reshape(y.shape)


def with_minimum(y: Array) -> Array:
    low, high = y.min(-1, keepdims=True), y.max(-1, keepdims=True)
    step = (high - low) / 255
    return low + np.rint((y - low) / step) * step


def sharded(y: Array) -> Array:
    """Each half of a norm's row by its own mean square, the norm's weight aside."""
    parts = y.astype(np.float64).reshape(*y.shape[:-1], 2, -1)
    parted, whole = (parts**2).mean(-1, keepdims=True), (parts**2).mean((-1, -2), keepdims=True)
    return (parts * np.sqrt(whole / parted)).reshape(y.shape)


def joined(p: Array) -> Array:
    """Keys in two halves, each with its own softmax, whose log-sum-exps are joined as powers of 2."""
    blocks = np.array_split(p.astype(np.float64), [(p.shape[-1] + 1) // 2], axis=-1)
    sums = [block.sum(-1, keepdims=True) for block in blocks]
    shares = np.stack(sums) ** np.log(2)
    weights = shares / shares.sum(0) / np.where(sums, sums, 1)
    return np.concatenate([block * weight for block, weight in zip(blocks, weights, strict=True)], -1)


def of_other_rows(y: Array) -> Array:
    return y * np.random.default_rng(4).uniform(0.5, 2, (*y.shape[:2], *(1,) * (y.ndim - 2)))


def by_first_row(case: str, read: str) -> Change:
    """Each row of a norm by the root mean square of batch row 0."""
    x = golden(case)[read, 0].values().astype(np.float64)
    eps = {RAGGED: 1e-6, GRAPH: 3e-5}[case]
    roots = np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return lambda y: y * roots / roots[:1]


def grown(axis: int) -> Change:
    return lambda y: y * (1 + 0.1 * np.log1p(at(np.arange(y.shape[axis]), axis, y.ndim)))


def alibi(scores: Array) -> Array:
    slopes = at(0.5 ** np.arange(1, scores.shape[1] + 1), 1, 4)
    keys, queries = np.arange(scores.shape[3]), np.arange(scores.shape[2])[:, None]
    return scores + slopes * (keys - queries)


def alibi_behind(p: Array) -> Array:
    y = p * np.exp(at(0.5 ** np.arange(1, p.shape[1] + 1), 1, 4) * np.arange(p.shape[3]))
    return y / y.sum(-1, keepdims=True)


Q, K, P, N = (f"{ATTENTION}.{name}" for name in ("q_rope", "cache_keys", "probs", "k_norm"))
DONE: dict[str, tuple[str, str, str, str, Change, int]] = {
    "too much in the sum": ("invariant.rows_sum", "something else is in", PLAIN, P, leaking, 0),
    "too much in a graph's sum": ("invariant.rows_sum", "something else is in", GRAPH, f"{GRAPHS}.probs", leaking, 0),
    "keys hidden": ("invariant.visible_zero", "■■□··", PLAIN, P, last_hidden, 0),
    "keys hidden in a graph": ("invariant.visible_zero", "□", GRAPH, f"{GRAPHS}.probs", last_hidden, 0),
    "hidden too late": ("invariant.visible_zero", "hidden behind the softmax", PLAIN, P, masked_late, 1),
    "a key too many": ("invariant.visible_zero", "■···×", PLAIN, P, first_key_visible, 0),
    "a key too many in a graph": ("invariant.visible_zero", "×", GRAPH, f"{GRAPHS}.probs", first_key_visible, 0),
    "clamped": ("invariant.clamped", "±0.9", PLAIN, f"{LAYER}.mlp.gate_proj", tightened(0.9), 0),
    "clamped in a graph": ("invariant.clamped", "±0.1", GRAPH, f"{MODEL}.mlp", tightened(0.1), 0),
    "clamped from above": ("invariant.clamped", "above 0.5", PLAIN, f"{LAYER}.mlp.up_proj",
                           lambda y: np.minimum(y, 0.5), 0),
    "saturated": ("invariant.clamped", "each channel of each head", PLAIN, K, saturated, 3),
    "float8 with a scale": ("invariant.grid", "e4m3) times a scale of the whole", PLAIN, K, e4m3, 2),
    "float8 in a graph": ("invariant.grid", "e4m3) times a scale of the whole", GRAPH, f"{GRAPHS}.v_proj", e4m3, 0),
    "4 bits in blocks": ("invariant.grid", "each block of 8 channels: 4-bit", PLAIN, f"{LAYER}.output", four_bits, 0),
    "8 bits and a minimum": ("invariant.grid", "each row of channels, from its smallest: 8-bit", PLAIN,
                             f"{ATTENTION}.o_proj", with_minimum, 0),
    "8 bits in a graph": ("invariant.grid", "with a minimum", GRAPH, f"{MODEL}.mlp", with_minimum, 0),
    "a norm of a shard": ("fit.part_factor", "own root mean square", RAGGED, "decoder.norm", sharded, 0),
    "a norm of a shard in a graph": ("fit.part_factor", "one factor for each 8", GRAPH, "model.norm", sharded, 0),
    "blocks of keys joined by other weights": ("fit.key_parts", "one factor for each 4 keys", PLAIN, P, joined, 2),
    "blocks of keys in a graph": ("fit.key_parts", "joined by wrong weights", GRAPH, f"{GRAPHS}.probs", joined, 0),
    "another row's statistic": ("fit.row_factor", "each row of hidden", RAGGED, "decoder.norm", of_other_rows, 0),
    "another row's statistic in a graph": ("fit.row_factor", "each row of channel", GRAPH, "model.norm",
                                           of_other_rows, 0),
    "batch row 0's statistic": ("from.other_row", "at batch row 0", RAGGED, f"{LAYER}.input_layernorm",
                                lambda y: by_first_row(RAGGED, f"{LAYER}.input")(y), 0),
    "batch row 0's statistic in a graph": ("from.other_row", "at batch row 0", GRAPH, f"{MODEL}.input_layernorm",
                                           lambda y: by_first_row(GRAPH, "model.layers.0")(y), 0),
    "tiles of a mask": ("mask.bands", "queries 0–2 see what query 3 should", PLAIN, f"{ATTENTION}.mask",
                        lambda m: m | (np.arange(5) // 4 <= np.arange(5)[:, None] // 4), 0),
    "a logarithm": ("fit.position_factor", "1 + 0.1 × log(1 + position)", PLAIN, Q, grown(2), 0),
    "heads in groups": ("fit.axis_factor", "0–2 × 0.5, 3–5 × 2", PLAIN, Q,
                        lambda y: y * at(np.repeat([0.5, 2], 3), 1, 4), 0),
    "ALiBi": ("fit.key_bias", "0.5, 0.25, 0.125", PLAIN, f"{ATTENTION}.scores", alibi, 0),
    "ALiBi behind": ("fit.key_bias", "0.5, 0.25, 0.125", PLAIN, P, alibi_behind, 0),
    "ALiBi behind in a graph": ("fit.key_bias", "0.5, 0.25, 0.125", GRAPH, f"{GRAPHS}.probs", alibi_behind, 0),
}  # fmt: skip


def test_what_rows_are_divided_by_is_no_factor_of_heads() -> None:
    sums = np.linspace(0.6, 0.9, 6).reshape(1, 6, 1, 1)  # of one query: a row is a head
    names = [each.name for each in findings_at(PLAIN, P, lambda p: p * sums, 1)]
    assert names[0] == "invariant.rows_sum" and not {"fit.axis_factor", "fit.row_factor"} & set(names)


def last_page_dropped(p: Array) -> Array:
    p[..., -4:] = 0
    return p / p.sum(-1, keepdims=True)


def test_a_key_that_gets_nothing_has_no_bias() -> None:
    names = [each.name for each in findings_at(PLAIN, P, last_page_dropped, 3)]
    assert names[0] == "invariant.visible_zero" and "fit.key_bias" not in names


INPUTS: dict[str, tuple[str, str, str, str]] = {
    "activations of a linear": (PLAIN, f"{LAYER}.mlp.down_proj", f"{LAYER}.mlp.act", "each row of channels: 8-bit"),
    "activations of a graph": (GRAPH, f"{GRAPHS}.q_proj", f"{MODEL}.input_layernorm", "each row of channels: 8-bit"),
}  # fmt: skip


def per_token(x: Array) -> Array:
    scale = np.abs(x).max(-1, keepdims=True) / 127
    return np.rint(x / scale) * scale


@pytest.mark.parametrize("mistake", INPUTS)
def test_what_was_rounded_before_the_op_is_told(mistake: str) -> None:
    case, tap, reads, text = INPUTS[mistake]
    honest = golden(case)
    weight = weights(case)[f"{tap}.weight"]
    best = findings_at(case, tap, lambda y: per_token(honest[reads, 0].values().astype(np.float64)) @ weight.T)[0]
    assert best.name == "invariant.grid" and f"{reads.rpartition('.')[2]} is rounded" in best.says and text in best.says


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mistake", DONE)
def test_what_an_op_breaks_is_told_first_and_reproduces_the_numbers(mistake: str) -> None:
    name, text, *done = DONE[mistake]
    best = findings_at(*done)[0]
    assert (best.name, text in best.says) == (name, True), best
    assert best.weight >= (0.5 if name == "mask.bands" else 0.9), best


def scaled_by_position(y: Array, site: Site) -> Array:
    first = site.stop - site.length
    return y * at((1 + np.arange(first, site.stop)) ** 0.25, 2, 4)


def ahead(ids: Array, site: Site) -> Array:
    return ids + site.step * (site.step + 1)


def test_a_factor_that_grows_from_step_to_step_is_a_law() -> None:
    first = fault(PLAIN, {"decoder.layers.{layer}.merged_attn.q_rope": changed(scaled_by_position)}).findings[0]
    assert first.name == "fit.position_factor" and "(1 + position) ** 0.25" in first.says and first.weight == 1


def test_a_factor_that_grows_from_step_to_step_is_a_law_by_a_graph() -> None:
    honest, name, tensors = golden(GRAPH), f"{GRAPHS}.query", []
    order = graph_of(honest.graph, honest.source).taps
    for item in honest:
        if item.info.name == name:
            slots = np.arange(item.array.shape[2]) + (4 + item.info.step if item.info.step else 0)
            y = (item.values() * at(1 + 0.1 * np.log1p(slots), 2, 4)).astype(np.float32)
            item = tensor(name, y, step=item.info.step, axes=item.info.axes, op=item.info.op)
        if order.get((item.info.name, 0), 0) <= order[name, 0]:  # what reads it would be right without it
            tensors.append(item)
    faults = diagnose(honest, replace(honest, tensors=tensors), weights(GRAPH), partial=True).faults
    first = next(each.findings[0] for each in faults if each.fault.place.endswith("query"))
    assert first.name == "fit.position_factor" and "1 + 0.1 × log(1 + slot)" in first.says


def test_whole_numbers_that_run_ahead_by_step_are_told() -> None:
    first = fault(PLAIN, {"decoder.position_ids": changed(ahead)}).findings[0]
    assert first.name == "fit.step_offset" and "+2, +6, +12, +20 in steps 1–4" in first.says


def noisy(y: Array) -> Array:
    return y + 0.1 * np.abs(y).max() * np.random.default_rng(5).standard_normal(y.shape)


def renormalised(y: Array) -> Array:
    y = np.abs(noisy(y)) * (y > 0)
    return y / np.maximum(y.sum(-1, keepdims=True), 1e-9)


def a_cell(y: Array) -> Array:
    y[(-1,) * y.ndim] += 0.5
    return y


NONE: dict[str, tuple[str, str, Change]] = {
    "noise": (PLAIN, f"{LAYER}.mlp.down_proj", noisy),
    "noise in a graph": (GRAPH, f"{MODEL}.mlp", noisy),
    "noise in heads": (PLAIN, Q, noisy),
    "noise in heads of a graph": (GRAPH, f"{GRAPHS}.query", noisy),
    "noise in rows that sum to 1": (PLAIN, P, renormalised),
    "noise in rows of a graph that sum to 1": (GRAPH, f"{GRAPHS}.probs", renormalised),
    "a cell": (PLAIN, f"{ATTENTION}.context", a_cell),
    "a cell of a graph": (GRAPH, "model.norm", a_cell),
}


@pytest.mark.parametrize("mistake", NONE)
def test_what_breaks_nothing_of_an_op_tells_where_it_is_and_no_more(mistake: str) -> None:
    case, tap, change = NONE[mistake]
    assert {each.name for each in findings_at(case, tap, change)} <= {"fit.size", "fit.concentrated"}


def test_a_step_of_a_single_query_is_no_head() -> None:
    """Keys `[batch, kv_heads, query, head_dim]` read rows `[batch, query, kv_heads, head_dim]`."""
    assert findings_at(RAGGED, f"{ATTENTION}.k_rope", noisy, 1)[-1].name == "fit.size"


@pytest.mark.parametrize("case", [PLAIN, GRAPH])
def test_honest_numbers_tell_nothing(case: str) -> None:
    for tap in (P, Q, "decoder.norm") if case == PLAIN else (f"{GRAPHS}.probs", f"{GRAPHS}.query", "model.norm"):
        said_of = findings_at(case, tap, lambda y: np.where(y > 0, np.nextafter(y, np.float32(9)), y))
        assert {each.name for each in said_of} <= {"fit.size"}
