"""Several faults of one candidate: what explains most of them comes first, what explained one is tried on others."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from qwen3_parity.blame.work import Work
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.search import Search
from qwen3_parity.diagnosis.together import agreed, together
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.mistakes.ranks import FITTED, RARE

PLAIN = Explanation("norm.twice", "", "", "", share=0.5, whole=1, partly=0, of=1, contradicted=0)
RARER = replace(PLAIN, name="wiring.extra_norm", rank=RARE)
OTHER = replace(PLAIN, name="wiring.other_input", rank=RARE)
FIT = replace(PLAIN, name="weight.unknown", rank=FITTED)
SHARES = {"a": 2.0, "b": 9.0, "c": 2.0, "d": math.inf}
GROUPS = [Fault(place, others=("hidden",)) for place in "abc"]


def explained(fault: Fault, *explanations: Explanation, stopped: bool = False) -> Explained:
    return Explained(fault, "", explanations, stopped=stopped)


def first_names(done: list[Explained]) -> list[str]:
    return [fault.name for fault in done]


def test_of_equal_explanations_the_one_that_other_groups_share_comes_first() -> None:
    done = [explained(GROUPS[0], PLAIN, RARER), explained(GROUPS[1], RARER), explained(GROUPS[2], OTHER, RARER)]
    assert first_names(agreed(done)) == ["wiring.extra_norm"] * 3


def test_what_explains_less_stays_behind_however_many_groups_share_it() -> None:
    less = replace(RARER, whole=0, partly=1)
    done = [explained(GROUPS[0], PLAIN, less), explained(GROUPS[1], less), explained(GROUPS[2], less)]
    assert agreed(done)[0].name == "norm.twice"


def test_an_op_with_all_its_taps_keeps_its_own_order() -> None:
    alone = Fault("d")
    done = [explained(alone, PLAIN, RARER), explained(GROUPS[1], RARER)]
    assert agreed(done)[0].name == "norm.twice"


def test_what_explains_a_group_is_tried_first_on_the_next_one_and_in_no_op_with_a_tap() -> None:
    asked: dict[str, set[str]] = {}

    def explain(fault: Fault, search: Search) -> Explained:
        asked[fault.place] = set(search.known)
        return explained(fault, PLAIN if fault is GROUPS[0] else FIT)

    together([GROUPS[0], Fault("alone"), GROUPS[1]], explain, Search({"known before"}), 10)
    assert asked == {"a": {"known before"}, "alone": {"known before"}, "b": {"known before", "norm.twice"}}


@pytest.mark.parametrize("stopped", [True, False])
def test_who_had_not_enough_is_asked_again_with_the_names_and_what_the_others_left(stopped: bool) -> None:
    searches: list[Search] = []

    def explain(fault: Fault, search: Search) -> Explained:
        if fault is GROUPS[1]:
            return explained(fault, RARER)
        searches.append(search)
        return explained(fault, RARER if RARER.name in search.known else FIT, stopped=stopped)

    done = together(GROUPS[:2], explain, Search(work=Work(100)), 10)
    assert done[0].name == ("wiring.extra_norm" if stopped else "weight.unknown")
    assert [search.until for search in searches] == ([105, 110] if stopped else [105])


@pytest.mark.parametrize(("spent", "cut"), [(11, False), (1, True)])
def test_nobody_is_asked_again_when_all_is_spent_or_the_clock_has_cut(spent: int, cut: bool) -> None:
    asked = list[Fault]()

    def explain(fault: Fault, search: Search) -> Explained:
        asked.append(fault)
        search.work.done += spent
        return replace(explained(fault, FIT, stopped=True), cut=cut)

    together(GROUPS[:1], explain, Search(), 10)
    assert asked == GROUPS[:1]


def test_the_largest_error_is_explained_first_and_the_faults_keep_their_order() -> None:
    faults = [Fault(place, wrong=(OpVerdict(place, 0, "linear", share=share),)) for place, share in SHARES.items()]
    asked = list[str]()

    def explain(fault: Fault, _: Search) -> Explained:
        asked.append(fault.place)
        return explained(fault, PLAIN)

    done = together(faults, explain, Search(), 10)
    assert asked == ["d", "b", "a", "c"]
    assert [fault.fault for fault in done] == faults


def test_a_fit_of_each_tap_by_itself_stands_behind_a_mistake_that_explains_some() -> None:
    partial = replace(RARER, whole=3, of=4)
    every = replace(FIT, whole=4, of=4)
    assert sorted([every, partial], key=lambda explanation: explanation.order)[0] is partial
