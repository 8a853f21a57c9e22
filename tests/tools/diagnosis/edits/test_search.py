"""The search itself, on a network made by hand: what an edit makes is answered by it or by one that makes the same."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import by_taps
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "slices"))
from small import recording, run, weights

from qwen3_golden import Array, Recording, pb
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.edits.edit import Call, Edit, Free, Site, Written
from qwen3_parity.diagnosis.edits.explain import _called_at, explain
from qwen3_parity.diagnosis.edits.fit import fit
from qwen3_parity.diagnosis.edits.grammar import PLAIN as TABLES
from qwen3_parity.diagnosis.edits.grammar.constants import config_numbers
from qwen3_parity.diagnosis.edits.grammar.layouts import layouts
from qwen3_parity.diagnosis.edits.grammar.reads import reads
from qwen3_parity.diagnosis.edits.search import Fitting, Searched, search
from qwen3_parity.diagnosis.edits.target import Target, target
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.precision import in_few_bits
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.network import network
from qwen3_spec.graph import Line

TAPS = ("layers.0.gate", "layers.0.gate[1]", "layers.0.experts", "layers.0", "logits")


@cache
def golden() -> Recording:
    return recording(run({}), "qwen3_reference", {"logits": pb.Floor()})


def tap(name: str, values: Array | None = None) -> Target:
    """A tap of an honest run, or with these values."""
    change = {} if values is None else {name: lambda _: {name: values.astype(np.float32)}}
    search_target = target(network(golden(), recording(run(change), "port"), weights()), name, 0)  # type: ignore[arg-type]
    assert search_target is not None
    return search_target


def edits(target: Target) -> list[Edit]:
    return [edit for table in TABLES for edit in table(target.region) if isinstance(edit, Edit)]


@pytest.mark.parametrize("name", TAPS)
def test_without_an_edit_a_region_is_what_the_judge_compares_with(name: str) -> None:
    honest = tap(name)
    network_of = honest.region.network
    np.testing.assert_array_equal(honest.truth, network_of.slices.value(honest.region.value))
    assert not honest.cells.any() and not search([honest], []).fitting


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", TAPS)
def test_what_an_edit_makes_is_answered_by_it_or_by_one_that_makes_the_same(name: str) -> None:
    honest, tried = tap(name), 0
    for edit in edits(honest)[::7]:
        values = honest.predicted(edit)
        if values is None or not np.isfinite(values).all() or np.abs(values).max() > 1e6:
            continue
        wrong = tap(name, values)
        if not wrong.cells.any():
            continue
        tried += 1
        searched = search([wrong], [])
        assert searched.fitting, edit.says
        best = searched.fitting[0]
        assert best.said.share <= 1 and (best.said.partly or best.edit.rank <= edit.rank), (edit.says, best.edit.says)
    assert tried > 3


def test_an_edit_of_nothing_here_and_one_that_changes_nothing_make_nothing() -> None:
    honest = tap("layers.0.experts")
    elsewhere = Edit("edit.none", "", PLAIN, {Site("other.py", 1, "add.Tensor"): lambda call: call.plain()})
    same = Edit("edit.none", "", PLAIN, {site: lambda call: call.plain() for site in honest.region.sites})
    assert honest.predicted(elsewhere) is None and honest.predicted(same) is None


def test_an_edit_whose_shapes_do_not_fit_makes_nothing() -> None:
    honest = tap("layers.0.experts")
    for site in honest.region.sites:
        assert honest.predicted(Edit("edit.none", "", PLAIN, {site: lambda _: np.zeros((3, 7))})) is None


def test_an_edit_that_fails_whichever_way_makes_nothing() -> None:
    def fails(_: Call) -> Array:
        raise StopIteration

    honest = tap("layers.0.experts")
    (site, *_) = honest.region.sites
    assert honest.predicted(Edit("edit.none", "", PLAIN, {site: fails})) is None


def test_a_free_number_is_fitted_and_round_ones_come_first() -> None:
    honest = tap("layers.0")
    wrong = tap("layers.0", honest.truth * 1.25)
    says = [
        edit.says
        for table in TABLES
        for free in table(wrong.region)
        if isinstance(free, Free)
        for edit in fit(free, wrong)
        if wrong.of(edit).fits
    ]
    assert says[0] == "scales the result of add by 1.25"


def test_a_factor_that_is_next_to_1_explains_nothing() -> None:
    honest = tap("layers.0")
    wrong = tap("layers.0", honest.truth * (1 + 2e-5))
    assert wrong.cells.any()
    every = [
        edit for table in TABLES for free in table(wrong.region) if isinstance(free, Free) for edit in fit(free, wrong)
    ]
    assert not [edit.says for edit in every if edit.says.startswith("scales ")]


def test_a_part_of_a_tap_is_explained_where_its_right_cells_are_right() -> None:
    honest = tap("layers.0")
    values = honest.truth.copy()
    values[1] = -values[1]
    best = search([tap("layers.0", values)], []).fitting[0]
    said = best.said
    assert said.partly == 1 and not said.whole and not said.spoiled
    assert said.says == "negates the result of add, in batch 1 alone"


def _barely(call: Call) -> Array:
    return np.asarray(call.plain() * (1 + 1e-12))


def test_cells_that_are_wrong_only_together_are_explained_together() -> None:
    honest = tap("layers.0")
    slope = honest.truth * 6 * honest.unit / np.abs(honest.truth)
    wrong = Target(honest.region, honest.truth + slope, honest.counts, honest.axes, honest.dtype)
    assert (wrong.cells == wrong.counts).all() and not honest.cells.any()
    (site,) = [site for site, values in honest.region.sites.items() if honest.region.value in values]
    assert not wrong.of(Edit("edit.none", "", PLAIN, {site: _barely})).fits


def test_numbers_of_a_config_that_no_float_holds_are_left_out() -> None:
    config = {"a": float("inf"), "b": float("nan"), "c": 10**400, "rope": {"theta": 8.0}, "d": -(10**400)}
    assert config_numbers(config) == {"rope.theta": 8.0}


def fitting(says: str, *, whole: int = 1, spoiled: float = 0.0, contradicted: int = 0) -> Fitting:
    """An edit that fits one tap of one, or a part of it."""
    said = Explanation("edit.fitted", says, "", "", 0.1, whole, 1 - whole, 1, contradicted, 1, spoiled,
                       taps=(("logits", 0),))  # fmt: skip
    return Fitting(Edit("edit.fitted", says, PLAIN, {}), said, 1)


@pytest.mark.parametrize(
    ("fittings", "said"),
    [
        (["scales add by 4.898979", "scales add by 4.89898", "scales mul by 4.898979"], [0, 2]),
        (["squashes mul: c = 50", "squashes mul: c = 49.99888"], [0]),
        (["takes 2 of 7", "takes 3 of 7"], [0, 1]),
    ],
)
def test_of_numbers_that_are_the_same_in_few_digits_the_first_is_said(
    fittings: list[str], said: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qwen3_parity.diagnosis.edits.explain.search", lambda *_, **__: Searched(
        [fitting(says) for says in fittings]))  # fmt: skip
    explained = explain(Fault("logits", (), ()), tap("logits").region.network)
    assert [each.said.says for each in explained.fitting] == [fittings[number] for number in said]


@pytest.mark.parametrize(
    ("spoiled", "contradicted", "whole", "is_said"),
    [(1.0, 0, 0, False), (0.4, 2, 0, False), (0.4, 0, 0, True), (0.1, 2, 0, True), (0.0, 2, 1, True)],
)
def test_an_edit_that_spoils_what_is_right_beside_the_little_that_it_gives_is_not_said(
    spoiled: float, contradicted: int, whole: int, is_said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit = fitting("is reversed", whole=whole, spoiled=spoiled, contradicted=contradicted)
    monkeypatch.setattr("qwen3_parity.diagnosis.edits.explain.search", lambda *_, **__: Searched([edit]))
    explained = explain(Fault("logits", (), ()), tap("logits").region.network)
    assert bool(explained.fitting) == is_said


def test_of_two_lines_with_the_same_words_each_is_tried_on_all_taps() -> None:
    honest = tap("layers.0")
    wrong = tap("layers.0", honest.truth * 2)
    (site,) = [site for site, values in honest.region.sites.items() if honest.region.value in values]
    lines = (Written(Line("model.py", number, "forward")) for number in (3, 7))
    twice = [Edit("edit.twice", "adds it twice", PLAIN, {site: lambda call: call.plain() * 2}, line) for line in lines]
    assert [each.edit for each in search([wrong], [], twice, new=False).fitting] == twice
    assert len(search([wrong], [], (twice[0], twice[0]), new=False).fitting) == 1


@pytest.mark.parametrize(("size", "waits"), [(1.0, True), (1e-3, False)])
def test_what_makes_numbers_narrow_waits_where_a_tap_is_far_off(
    size: float, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, tried = tap("layers.0.experts"), list[str]()
    of = Target.of
    monkeypatch.setattr(Target, "of", lambda self, edit: (tried.append(edit.name), of(self, edit))[1])
    noise = np.random.default_rng(0).normal(size=honest.truth.shape)
    search([tap("layers.0.experts", honest.truth + size * np.abs(honest.truth).max() * noise)], [])
    assert (tried.index("edit.rounded") > tried.index("edit.added")) == waits
    assert tried.index("edit.added") > tried.index("edit.reads")


@pytest.mark.parametrize(("moved", "left"), [(1, 0), (9, 1)])
def test_a_rounding_accounts_for_few_cells_on_another_step_and_not_for_many(moved: int, left: int) -> None:
    case, norm = "model/qwen3_moe", "model.norm"
    golden = by_taps.golden(case)
    rounded = {step: golden[norm, step].array.astype(np.float16) for step in range(len(golden.case.steps))}
    cells = rounded[1].reshape(-1)[-moved:]
    cells[:] = np.nextafter(cells, np.float16(np.inf))
    shown = [item for item in golden if item.info.name not in ("model", "lm_head", "logits")]
    tensors = [replace(x, array=np.float32(rounded[x.info.step])) if x.info.name == norm else x for x in shown]
    *others, fault = diagnose(golden, replace(golden, tensors=tensors), by_taps.weights(case), partial=True).faults
    best = fault.explanations[0]
    assert (best.name, best.whole, best.of, len(fault.left)) == ("edit.rounded", 2, 3 - left, 0)
    assert in_few_bits(fault) and ("but for few cells" in best.says) == (not left)
    assert [(each.fault.place, each.fault.wrong[0].step, in_few_bits(each)) for each in others] == (
        [(norm, 1, False)] * left
    )


def test_another_value_that_is_read_is_tried_before_a_result_that_is_a_number_off() -> None:
    """Of results there are several such edits for every op: by a layer's output they had taken all others' time."""
    region = tap("layers.0").region
    every = [edit for table in (layouts, reads) for edit in table(region) if isinstance(edit, Edit)]
    off = [edit.rank for edit in every if edit.says.startswith("reads the number ")]
    read = [edit.rank for edit in every if edit.name == "edit.reads"]
    assert off and read and max(read) < min(off)


@pytest.mark.parametrize(
    ("numbers", "says"), [((), ""), ((7,), ":7"), ((7, 9), ":7 and 9"), ((7, 8, 9), ":7, 8 and 9"), ((6, 7, 8, 9), "")]
)
def test_lines_that_call_what_has_a_mistake_are_said_together(numbers: tuple[int, ...], says: str) -> None:
    """Keys and values are repeated by one function."""
    callers = [Line("modeling_x.py", number, "forward") for number in numbers]
    assert _called_at(callers) == (says and f", called at modeling_x.py{says}")
    assert _called_at([*callers, Line("modeling_y.py", 1, "forward")] if callers else []) == ""


def test_what_would_spoil_a_right_tap_of_another_place_comes_behind_what_would_not() -> None:
    """Keys that later steps do not turn are turned as at position 0: that queries are right says which."""
    case, attention, keys = "model/qwen3_moe", "model.layers.0.self_attn", "cache.0.keys"
    whole = by_taps.golden(case)
    changed, newest = dict[tuple[str, int], Array](), list[Array]()
    for step in range(1, len(whole.case.steps)):
        newest.append(whole[f"{attention}.k_norm", step].values().swapaxes(1, 2))
        changed[keys, step] = np.concatenate([whole[keys, 0].values(), *newest], 2)
    ends = *(f"{attention}.{name}" for name in ("q_proj", "k_proj", "q_norm", "k_norm", "query")), keys
    assert by_taps.first_of(case, changed, ends).startswith("edit.left_out: leaves line ")


def test_of_half_precision_taps_of_indices_are_looked_at_beside_a_wrong_one() -> None:
    """A recording of experts has chosen indices, which have no rounding unit."""
    case, tap = "model/qwen3_moe_bfloat16", ("model.layers.1.self_attn.q_norm", 0)
    whole = by_taps.golden(case)
    before = [item for item in whole if not item.info.step]
    before = before[: [item.key for item in before].index(tap)]
    wrong = replace(whole[tap], array=whole[tap].array[..., ::-1])
    diagnosis = diagnose(whole, replace(whole, tensors=[*before, wrong]), by_taps.weights(case), partial=True)
    assert diagnosis.faults and not diagnosis.failures
