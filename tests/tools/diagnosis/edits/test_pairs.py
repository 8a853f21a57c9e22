"""Two mistakes at once are both named: in one slice, and where the second shows in a part of the taps alone.

It runs `edits.beside`, `edits.pairs` and `edits.search`, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from recorded import diagnosed, network
from test_edits_name_mistakes import IN_SOURCE, modeling
from test_order import LAYERS, MOE
from test_recurrences import honest, region

from detection.ported.substituted import Change, substituted
from qwen3_parity.diagnosis.edits.beside import with_second
from qwen3_parity.diagnosis.edits.edit import Edit, Site
from qwen3_parity.diagnosis.edits.grammar.values import values
from qwen3_parity.diagnosis.edits.pairs import beside
from qwen3_parity.mistakes.ranks import PLAIN


@contextmanager
def both(*mistakes: str) -> Iterator[Any]:
    """The golden's model as a source makes it that has several mistakes."""
    with ExitStack() as stack:
        for mistake in mistakes:
            function, old, new, _ = IN_SOURCE[mistake]
            change = Change(name=mistake, module=modeling.__name__, function=function, old=old, new=new)
            stack.enter_context(substituted(change))
        yield network()


@pytest.mark.parametrize(
    ("first", "second", "level"),
    [
        ("keys tiled", "halves exchanged", "modules"),
        pytest.param("keys tiled", "halves exchanged", "layers", marks=pytest.mark.slow),
        pytest.param("a sum for a mean", "scale left out", "layers", marks=pytest.mark.slow),
        pytest.param("axes not exchanged", "a router's silu", "layers", marks=pytest.mark.slow),
    ],
)
def test_two_mistakes_in_one_slice_are_both_named(first: str, second: str, level: str, tmp_path: Path) -> None:
    with both(first, second) as model:
        fault, *_ = diagnosed(model, tmp_path, level).faults
    best = fault.explanations[0]
    assert best.says.startswith("does two things otherwise: ") and best.whole == best.of
    assert IN_SOURCE[first][3] in best.says and IN_SOURCE[second][3] in best.says
    assert best.says.count(".py:") >= 2


def attended_twice(model: Any) -> None:
    """A layer adds what attention gives once more behind the MLP: only what is read there is otherwise."""
    layer, attended = model.model.layers[1], list[Any]()
    layer.self_attn.register_forward_hook(lambda module, inputs, result: attended.append(result[0]))
    layer.register_forward_hook(lambda module, inputs, result: result + attended[-1])


@pytest.mark.slow
def test_a_value_that_one_reader_has_otherwise_is_said_with_both_lines(tmp_path: Path) -> None:
    model = network()
    attended_twice(model)
    fault, *_ = diagnosed(model, tmp_path).faults
    assert fault.explanations[0].says.startswith(
        "reads hidden_states (line 340) plus layers.*.self_attn.o_proj in add, at modeling_qwen3_moe.py:346 in forward"
    )


@pytest.mark.slow
def test_no_second_mistake_is_made_up_where_it_does_nothing(tmp_path: Path) -> None:
    model = network()
    attended_twice(model)
    faults = diagnosed(model, tmp_path, "layers").faults
    assert not [x.says for fault in faults for x in fault.explanations if "does two things otherwise" in x.says]


@pytest.mark.slow
def test_of_two_mistakes_another_place_has_its_own_alone(tmp_path: Path) -> None:
    with both("a sum for a mean", "scale left out") as model:
        faults = diagnosed(model, tmp_path, "layers").faults
    (logits,) = (fault for fault in faults if fault.fault.place == "logits")
    assert logits.explanations[0].says.startswith("takes a sum, no mean")


def test_an_edit_stands_beside_those_of_other_places_alone() -> None:
    here = region("model.layers.0", of=honest(LAYERS, MOE))
    edits = [edit for edit in values(here) if isinstance(edit, Edit)]
    first = edits[0]
    every = list(beside(first, edits))
    assert len(every) > 10
    for edit in every:
        assert edit.parts[0] is first and {*edit.parts[1].changes}.isdisjoint(first.changes)
        assert edit.changes == {**first.changes, **edit.parts[1].changes}


class Two:
    """A region of two ops, 1 and 2, whose values are what the first edit says in its parts."""

    def at(self, site: Site) -> list[int]:
        return [site.number]

    def downstream(self, values: Any) -> list[int]:
        return [value for value in (1, 2) if value >= min(values)]

    def values(self, edit: Edit) -> dict[int, Any]:
        return {1: edit.parts, 2: edit.parts}

    def compute(self, order: Any, env: dict[int, Any], *_: Any, whole: bool) -> dict[int, Any]:
        assert order == [2] and not whole
        return env


def test_edits_that_say_the_same_of_two_lines_are_not_taken_for_one_another() -> None:
    def edit(number: int, *parts: Any) -> Edit:
        return Edit("edit.left_out", "leaves out mul", PLAIN, {Site("a.py", number, "mul"): lambda _: 0}, None, parts)

    two: Any = Two()
    held, second = list[Any](), edit(2)
    for first in (edit(1, "this"), edit(1, "that")):
        assert with_second(two, (first, second), held) == {1: first.parts, 2: first.parts} and len(held) == 1
