"""A wrong place that nothing explains is looked at by fewer taps; what explains all of it there is said here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from detection.ported.row import rows
from detection.ported.run import judged
from qwen3_golden import GOLDEN_ROOT, Recording, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.edits.edit import Edit
from qwen3_parity.diagnosis.edits.search import Fitting, Searched
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.from_behind import from_behind, views
from qwen3_parity.diagnosis.wrong_places import by_place
from qwen3_parity.mistakes.ranks import PLAIN
from qwen3_parity.slices.check import Judged, judged_by_graph
from qwen3_parity.slices.network import Network

GOLDEN = read(GOLDEN_ROOT / "cases/model/qwen3_moe.pb", digests=True)
WEIGHTS = weights_of(GOLDEN, GOLDEN_ROOT / "checkpoints")
VALUE, BEHIND = "model.layers.0.self_attn.value", "model.layers.0.self_attn.o_proj"


@cache
def of(*names: str) -> Judged:
    """The golden's own run with noise in these taps."""
    noise = np.random.default_rng(0)
    tensors = [
        replace(item, array=(item.array + noise.normal(size=item.array.shape)).astype(item.array.dtype))
        if item.info.name in names
        else item
        for item in GOLDEN
    ]
    candidate = replace(GOLDEN, tensors=tensors)
    return judged_by_graph(GOLDEN, candidate, WEIGHTS)


def names(recording: Recording) -> set[str]:
    return {item.info.name for item in recording if not item.info.name.startswith("input.")}


def test_a_candidate_is_seen_by_its_modules_and_by_its_layers() -> None:
    by_modules, by_layers = (view() for view in views(of(VALUE, BEHIND)))
    assert by_modules is not None and by_modules.network is not None
    assert by_layers is not None and by_layers.network is not None
    modules, layers = names(by_modules.network.candidate), names(by_layers.network.candidate)
    assert {VALUE, "cache.0.keys"}.isdisjoint(modules) and BEHIND in modules
    assert (
        layers < modules
        and "model.rotary_emb" not in layers
        and BEHIND not in layers
        and {"model.layers.0", "logits"} <= layers
    )
    assert views(by_modules)[0]() is None


def fitting(*, whole: int, of_taps: int) -> Fitting:
    said = Explanation("edit.moved", "turns values", "", BEHIND, 0.1, whole, 0, of_taps, 0)
    return Fitting(Edit("edit.moved", "turns values", PLAIN, {}), said, 1)


@pytest.mark.parametrize("whole", [6, 5])
def test_what_explains_all_of_a_place_behind_is_said_of_the_place(whole: int) -> None:
    judged_here = of(VALUE, BEHIND)
    (fault,) = (place for place, _ in by_place(judged_here.alone) if place.place.endswith(".value"))
    looked = list[str]()

    def look(place: Fault, network: Network, passing: Collection[int], work: int) -> Searched:
        looked.append(place.place)
        return Searched([fitting(whole=whole, of_taps=6)], work=work + 1)

    before = Searched(work=7)
    searched = from_behind(fault, before, views(judged_here), look)
    assert looked[0] == "model.layers.{layer}.self_attn.o_proj"
    if whole == 6:
        assert searched.fitting[0].said.place == fault.place
        assert searched.tried == searched.fitting[0].said.taps == tuple((x.name, x.step) for x in fault.wrong)
    else:
        assert not searched.fitting and searched.work > before.work


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qwen2-07", "hunyuan_v1_dense-06"])
def test_what_reads_values_outside_a_place_is_named_with_every_tap(name: str) -> None:
    """Values that are turned as keys are; norms behind the rotation, whose keys stand in a cache."""
    assert judged(next(row for row in rows() if row.name == name), "all").first
