"""Wrong numbers that stand elsewhere are found there: in another row, slot, head, step, layer, tap or request.

It runs `provenance.added` and `provenance.matches`, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from seeded import changed, fault
from wrong_numbers import evidence, golden

from qwen3_golden import GOLDEN_ROOT, Array, tensor
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.findings import Finding, WrongTap, findings
from qwen3_parity.diagnosis.findings.of_site import wrong_tap
from qwen3_parity.diagnosis.judged import judged
from qwen3_parity.slices.stored import graph_of
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

RAGGED, SECOND = "encdec/ragged", "encdec/second_request"
ATTN, ATTN_0 = "decoder.layers.1.merged_attn", "decoder.layers.0.merged_attn"
Change = Callable[[Array], Array]


def _from(tap: WrongTap) -> list[Finding]:
    """Other findings are said beside these."""
    return [part for part in findings(tap) if part.name.startswith(("from.", "cache."))]


def changed_by_hand(case: str, name: str, step: int, change: Change) -> WrongTap:
    """A tap of a committed recording changed by hand, and judged by the formulas."""
    tap = wrong_tap(judged(evidence(case, name, lambda _: change(golden(case)[name, step].values().copy()), step)))
    assert tap is not None
    return tap


def best_of(tap: WrongTap) -> Finding:
    return next(iter(_from(tap)), Finding("", "", 0))


def put(y: Array, where: object, values: Array | float) -> Array:
    y[where] = values  # type: ignore[index]
    return y


def of_tap(name: str, step: int, case: str = RAGGED) -> Array:
    return golden(case)[name, step].values()


GATE = "decoder.layers.1.mlp.gate_proj"
LAST = np.s_[..., 5:]
FIRST = golden(SECOND).case.after
HELD: dict[str, tuple[str, str, int, Change, str, str]] = {
    "another tap added": (RAGGED, "decoder.layers.1.mlp.up_proj", 0, lambda y: y + of_tap(GATE, 0), "from.added",
        f"it has {GATE} added"),
    "half of another subtracted": (RAGGED, "decoder.layers.1.mlp.up_proj", 0, lambda y: y - of_tap(GATE, 0) / 2,
        "from.added", f"it has {GATE} × 0.5 subtracted"),
    "a shard at column 0": (RAGGED, "logits", 0, lambda y: put(put(y, np.s_[..., :105], y[..., 106:].copy()),
        np.s_[..., 106:], 0), "from.other_channels", "hold what belongs in vocab 106"),
    "rows in another order": (RAGGED, f"{ATTN}.context", 0, lambda y: y[[0, 2, 1]], "from.other_row",
        "batch rows 1–2 hold what belongs in batch rows 2, 1"),
    "a row for all": (RAGGED, f"{ATTN}.context", 0, lambda y: y[[0, 0, 0]], "from.other_row",
        "batch rows 1–2 hold what belongs in batch row 0"),
    "logits of another row": (RAGGED, "logits", 1, lambda y: y[[0, 2, 1]], "from.other_row",
        "batch rows 1–2 hold what belongs in batch rows 2, 1"),
    "one position late": (RAGGED, f"{ATTN}.context", 0, lambda y: np.roll(y, 1, 1), "from.other_slot",
        "positions 0–3 hold what belongs in positions 3, 0–2"),
    "heads in another order": (RAGGED, f"{ATTN}.context", 0, lambda y: y[:, :, [3, 1, 2, 0, 5, 4]], "from.other_head",
        "heads 0, 3–5 hold what belongs in heads 3, 0, 5, 4"),
    "half of the layer before": (RAGGED, f"{ATTN}.q_rope", 1,
        lambda y: put(y, LAST, of_tap(f"{ATTN_0}.q_rope", 1)[LAST]),
        "from.other_layer", f"head_dim 5–9 hold {ATTN_0}.q_rope, at the same place"),
    "half of one head": (RAGGED, f"{ATTN}.q_rope", 1,
        lambda y: put(y, np.s_[:, 2, :, 5:], of_tap(f"{ATTN_0}.q_rope", 1)[:, 2, :, 5:]), "from.other_layer",
        f"head 2, head_dim 5–9 hold {ATTN_0}.q_rope, at the same place"),
    "the step before": (RAGGED, f"{ATTN}.v_proj", 2, lambda y: of_tap(f"{ATTN}.v_proj", 1), "from.other_step",
        "all of it holds this tap of step 1, at the same place"),
    "what it reads": (RAGGED, "decoder.layers.1.input_layernorm", 0, lambda y: of_tap("decoder.layers.1.input", 0),
        "from.other_tap", "all of it holds decoder.layers.1.input, at the same place"),
    "heads that stand in a row there": (RAGGED, f"{ATTN}.q_norm", 0,
        lambda y: of_tap(f"{ATTN}.q_proj", 0).reshape(y.shape), "from.other_tap", f"holds {ATTN}.q_proj, at the same"),
    "a half twice": (RAGGED, f"{ATTN}.q_rope", 1, lambda y: put(y, LAST, y[..., :5]), "from.other_channels",
        "head_dim 5–9 hold what belongs in head_dim 0–4"),
    "zeros": (RAGGED, f"{ATTN}.q_rope", 1, lambda y: put(y, 1, 0), "from.zeros", "batch row 1 holds zeros"),
    "one number everywhere": (RAGGED, f"{ATTN}.q_rope", 1, lambda y: put(y, 1, 0.25), "from.constant",
        "batch row 1 holds one number everywhere"),
    "a prefix of the request before": (SECOND, f"{ATTN}.k_rope", 0,
        lambda y: put(y, np.s_[:, :, :4], of_tap(f"{ATTN}.k_rope", 0, FIRST)[:, :, :4]), "from.earlier_request",
        "positions 0–2 hold the request before's k_rope (step 0), at the same place"),
    "slots further on": (RAGGED, f"{ATTN}.cache_keys", 2, lambda y: y[:, :, [0, 1, 3, 4, 4, 5]], "cache.slot_map",
        "slots 2–3 hold what belongs in slots 3–4"),
    "pages exchanged in one row": (RAGGED, f"{ATTN}.cache_keys", 2, lambda y: put(y, 0, y[0][:, [2, 3, 0, 1, 4, 5]]),
        "cache.slot_map", "batch row 0, slots 0–3 hold what belongs in slots 2–3, 0–1"),
    "nobody's": (RAGGED, f"{ATTN}.cache_keys", 2, lambda y: put(y, np.s_[:, :, 3:], np.cos(9 * y[:, :, 3:])),
        "cache.unknown", "slots 3–5 hold something that stands nowhere in this recording up to this step"),
    "slots of one number": (RAGGED, f"{ATTN}.cache_keys", 2, lambda y: put(y, np.s_[:, :, 1], 3e8),
        "cache.not_written", "slot 1 hold one number everywhere"),
    "slots never written": (RAGGED, f"{ATTN}.cache_keys", 2, lambda y: put(y, np.s_[:, :, 5], 0),
        "cache.not_written", "slot 5 holds zeros"),
    "slots of the request before": (SECOND, f"{ATTN}.cache_keys", 2,
        lambda y: put(y, np.s_[:, :, :2], of_tap(f"{ATTN}.cache_keys", 4, FIRST)[:, :, :2]), "cache.stale",
        "slots 0–1 hold the request before's cache_keys (step 4), at the same place: a request begins with an empty"),
}  # fmt: skip


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("change_name", HELD)
def test_what_stands_elsewhere_is_told_as_a_map(change_name: str) -> None:
    case, name, step, change, kind, says = HELD[change_name]
    best = best_of(changed_by_hand(case, name, step, change))
    assert (best.name, says in best.says) == (kind, True), best
    assert best.weight == {"from.zeros": 0.95, "from.constant": 0.95, "cache.unknown": 0.5}.get(kind, 1)


def noisy(y: Array) -> Array:
    return y + np.random.default_rng(0).standard_normal(y.shape).astype(np.float32)


NOTHING: dict[str, tuple[str, Change]] = {
    "noise": (f"{ATTN}.q_rope", noisy),
    "rows with one of two numbers": (
        f"{ATTN}.probs",
        lambda y: (y == y.max(axis=-1, keepdims=True)).astype(np.float32),
    ),
    "a factor": (f"{ATTN}.q_rope", lambda y: y * np.float32(1.5)),
    "roundings": (f"{ATTN}.context", lambda y: np.nextafter(y, np.float32(9))),
    "nothing": (f"{ATTN}.context", lambda y: y),
}


@pytest.mark.parametrize("change_name", NOTHING)
def test_what_stands_nowhere_is_nobodys(change_name: str) -> None:
    name, change = NOTHING[change_name]
    assert not [x for x in findings(changed_by_hand(RAGGED, name, 1, change)) if x.name.startswith("from.")]


def drawn(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(np.float64)


def tap_of(
    actual: Array, truth: Array, limit: float | Array, recorded: dict[tuple[str, int], Array] | None = None
) -> WrongTap:
    """A tap by itself, among others of its axes that were recorded before and behind it."""
    taps, axes, key = recorded or {}, ("batch", "query", "hidden"), ("layers.1.y", 0)
    unit = np.broadcast_to(limit, truth.shape)
    return WrongTap(
        key, axes, frozenset(), actual, truth, unit, np.ones(truth.shape, bool), np.abs(actual - truth) > limit, 1.0,
        lambda name, step: taps.get((name, step)), list(taps), axes_of=lambda name, step: axes,
    )  # fmt: skip


def test_a_few_coarse_numbers_are_equal_by_chance() -> None:
    truth = drawn((4, 200, 2))
    assert not _from(tap_of(drawn((4, 200, 2), 1), truth, 0.05))
    exact = tap_of(truth[[1, 0, 2, 3]], truth, 1e-6)
    assert best_of(exact).says == "batch rows 0–1 hold what belongs in batch rows 1, 0"


def test_what_nearly_belongs_there_stands_nowhere_else() -> None:
    truth = drawn((1, 4, 64)).repeat(3, axis=0)
    assert not _from(tap_of(1.3 * truth, truth, 0.25 * np.abs(truth)))


def test_equal_numbers_in_a_row_are_nobodys() -> None:
    truth = drawn((3, 4, 8))
    truth[0] = 0.25
    best = best_of(tap_of(np.stack([truth[0], truth[0], truth[2]]), truth, 1e-6))
    assert (best.name, best.weight) == ("from.constant", 0.95)


def test_the_source_of_most_places_tells_of_those_that_stand_elsewhere_too() -> None:
    truth, layer = drawn((1, 6, 8)), drawn((1, 6, 8), 1)
    truth[:, 5] = layer[:, 2]
    wrong = np.concatenate([layer[:, :5], truth[:, 5:]], axis=1)
    says = best_of(tap_of(wrong, truth, 1e-6, {("layers.0.y", 0): layer, ("layers.1.y", 0): wrong})).says
    assert says == "positions 0–4 hold layers.0.y, at the same place"


def test_of_rows_that_hold_the_same_the_fewest_moves_tell() -> None:
    truth = drawn((1, 4, 8)).repeat(3, axis=0)
    says = best_of(tap_of(np.roll(truth, 1, axis=1), truth, 1e-6)).says
    assert says == "positions 0–3 hold what belongs in positions 3, 0–2"


def test_what_is_computed_behind_a_tap_is_no_source_of_it() -> None:
    truth, actual = drawn((2, 4, 8)), drawn((2, 4, 8), 1)
    behind = {("layers.1.y", 0): actual, ("layers.2.y", 0): actual}
    assert not _from(tap_of(actual, truth, 1e-6, behind))
    ahead = {("layers.0.y", 0): actual, **behind}
    assert best_of(tap_of(actual, truth, 1e-6, ahead)).name == "from.other_layer"


def of_steps(actual: Array, truth: Array, later: Array, golden: dict[int, Array]) -> WrongTap:
    tap = tap_of(actual, truth, 1e-6, {("layers.1.y", 0): actual, ("layers.1.y", 1): later})
    return replace(tap, golden=lambda name, step: golden.get(step))


def test_a_later_step_is_the_source_of_what_belongs_there_alone() -> None:
    truth, later = drawn((2, 4, 8)), drawn((2, 1, 8), 1)
    actual = truth.copy()
    actual[1, 3] = later[0, 0]
    tap = of_steps(actual, truth, later, {0: truth, 1: later + 1e-5})
    best = best_of(tap)
    says = "batch row 1, position 3 holds this tap of step 1, at position 0 of batch row 0"
    assert (best.name, best.says, best.weight) == ("from.other_step", says, 1)
    assert not _from(of_steps(actual, truth, later, {0: truth, 1: drawn((2, 1, 8), 2)}))


def test_it_is_nowhere_in_the_recording_only_where_every_step_was_looked_at() -> None:
    truth, later = drawn((2, 4, 8)), drawn((2, 1, 8), 1)
    actual = truth[:, [1, 0, 2, 3]]
    actual[1, 3] = drawn((8,), 3)
    says = {
        of: best_of(of_steps(actual, truth, later, {0: truth, 1: golden})).says.partition("stands nowhere ")[2]
        for of, golden in {"its own": later, "another": drawn((2, 1, 8), 2)}.items()
    }
    assert says == {"its own": "in this recording", "another": "in this recording up to this step"}


def test_a_slot_that_copies_holds_what_is_computed_for_another_or_the_golden_has_there() -> None:
    truth, golden = drawn((1, 2, 6, 8)), drawn((1, 2, 6, 8), 1)
    actual, name = truth.copy(), "cache.0.keys"
    actual[:, :, 1], actual[:, :, 5] = truth[:, :, 5] + 1e-7, golden[:, :, 4] + 1e-5
    unit = np.where(np.arange(6)[:, None] < 5, 1e-37, 1e-6) * np.ones_like(truth)
    tap = replace(
        tap_of(actual, truth, unit, {(name, 0): actual}), key=(name, 0), axes=("batch", "heads", "key", "channel")
    )
    said = best_of(replace(tap, golden=lambda name, step: golden)).says
    assert said == "slot 1 holds what belongs in slot 5; slot 5 holds what the golden has in slot 4"


def test_a_slot_that_holds_what_the_golden_has_there_though_it_came_otherwise_is_no_source() -> None:
    """A key that was lost at the step before, and is there again."""
    truth, golden = drawn((1, 2, 6, 8)), drawn((1, 2, 6, 8), 1)
    actual, name = truth.copy(), "cache.0.keys"
    actual[:, :, 1], actual[:, :, 5] = truth[:, :, 4], golden[:, :, 5]
    tap = replace(
        tap_of(actual, truth, 1e-6, {(name, 0): actual}), key=(name, 0), axes=("batch", "heads", "key", "channel")
    )
    said = best_of(replace(tap, golden=lambda name, step: golden)).says
    assert said == "slot 1 holds what belongs in slot 4; slot 5 holds something that stands nowhere in this recording"


def test_what_the_golden_holds_twice_by_right_is_no_copy() -> None:
    truth, before = drawn((2, 4, 8)), drawn((2, 4, 8), 1)
    actual = before * 1.5  # one mistake in both steps, at tokens that are the same
    tap = tap_of(actual, truth, 1e-6, {("y", 0): actual})
    tap = replace(tap, key=("y", 1), keys=[("y", 0), ("y", 1)])
    assert best_of(tap).name == "from.other_step"
    assert best_of(replace(tap, golden=lambda name, step: truth if step else before)).name == "from.other_step"
    assert not _from(replace(tap, golden=lambda name, step: truth))


def test_part_of_a_map_weighs_less_and_says_what_is_left() -> None:
    truth = drawn((4, 3, 8))
    actual = np.concatenate([truth[[1, 2, 0]], drawn((1, 3, 8), 1)])
    best = best_of(tap_of(actual, truth, 1e-6))
    assert best.weight == pytest.approx(0.75 * 0.9)
    assert best.says.endswith("; batch row 3 holds something that stands nowhere in this recording")
    assert not _from(tap_of(np.concatenate([truth[[1]], drawn((3, 3, 8), 1)]), truth, 1e-6))


def rejected_draft(y: Array, site: Site) -> Array:
    """Slot 5 holds what slot 4 has, from step 2 on."""
    return put(np.array(y), np.s_[:, :, 5], y[:, :, 4]) if site.step >= 2 else y


def test_a_map_of_all_wrong_numbers_is_told_before_a_name_that_spoils_right_ones() -> None:
    said = fault("decoder/ragged_decode", {"decoder.layers.{layer}.merged_attn.cache_keys": changed(rejected_draft)})
    assert (said.name, said.findings[0].says) == ("cache.slot_map", "slot 5 holds what belongs in slot 4")
    assert any("cache.shifted" in x.says for x in said.findings if x.name == "fit.few_taps")


def by_graph(case: str, name: str, step: int, change: Change) -> Finding:
    """The first finding of a committed golden judged by its graph, with one tap changed by hand."""
    honest = golden(case)
    item = honest[name, step]
    wrong = tensor(name, change(item.array.copy()), step=step, axes=item.info.axes, dtype=item.info.dtype)
    order = graph_of(honest.graph, honest.source).taps  # what reads it would be right without it
    taps = [wrong if tap.key == item.key else tap for tap in honest if order.get(tap.key, 0) <= order[item.key]]
    candidate = replace(honest, tensors=taps, parameters=[])
    faults = diagnose(honest, candidate, weights_of(honest, GOLDEN_ROOT / "checkpoints"), partial=True).faults
    return next(said.findings[0] for said in faults if any(verdict.name == name for verdict in said.fault.wrong))


MOE, LAYER = "model/qwen3_moe", "model.layers.1"
GRAPHS: dict[str, tuple[str, str, int, Change, str, str]] = {
    "a half of the layer before": (MOE, f"{LAYER}.self_attn.query", 1,
        lambda y: put(y, np.s_[..., 2:], of_tap("model.layers.0.self_attn.query", 1, MOE)[..., 2:]), "from.other_layer",
        "channels 2–3 hold model.layers.0.self_attn.query, at the same place"),
    "slots late by one, heads exchanged": (MOE, f"{LAYER}.self_attn.key", 0, lambda y: np.roll(y, 1, 2)[:, [1, 0]],
        "from.other_slot",
        "slots 0–4, heads 0–1 hold what belongs in heads 1, 0 of slots 4, 0–3"),
    "another row, in bfloat16": ("model/qwen3_moe_bfloat16", f"{LAYER}.self_attn.query", 0, lambda y: y[[1, 1]],
        "from.other_row", "batch row 0, positions 3–4 hold what belongs in batch row 1"),
}  # fmt: skip


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("change_name", GRAPHS)
def test_a_golden_with_a_graph_has_the_same_maps(change_name: str) -> None:
    case, name, step, change, kind, says = GRAPHS[change_name]
    best = by_graph(case, name, step, change)
    assert (best.name, best.says, best.weight) == (kind, says, 1), best


@pytest.mark.slow
def test_a_cache_of_hidden_keys_is_not_asked_what_its_new_slots_hold() -> None:
    def wrong(site: Site) -> Array:
        return np.cos(9 * OPS[site.place.op].truth(site)[0])

    said = fault(RAGGED, {f"{ATTN}.k_norm".replace("1", "{layer}"): lambda site: (wrong(site), None)},
                 without=("k_norm", "k_rope", "k_proj"))  # fmt: skip
    assert not [x for x in said.findings if x.name.startswith("cache.")]


def test_heads_that_each_stand_elsewhere_are_chance_in_half_precision_and_whole_positions_are_none() -> None:
    """Numbers of few bits are near to some head's of the tap: a mistake moves heads together, or positions."""

    def scattered(y: Array) -> Array:
        source = y.copy()
        for head in range(6):
            y[0, 3, head] = source[head % 2 + 1, head % 3, (head * head + 1) % 6]
        return y

    def halves(y: Array) -> Array:
        return put(y, np.s_[0, 3, :4], y[1, 2, :4].copy())

    far, together = (changed_by_hand(RAGGED, f"{ATTN}.context", 0, change) for change in (scattered, halves))
    assert best_of(far).name == best_of(together).name == "from.other_row"
    assert best_of(replace(far, wide=False)).name != "from.other_row"
    assert best_of(replace(together, wide=False)).name == "from.other_row"
