"""Layers of a place in several bits, or otherwise in some of them: each is said with its layers."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_golden import Array
from qwen3_parity.diagnosis import by_layer
from qwen3_parity.diagnosis.by_layer import Part
from qwen3_parity.diagnosis.edits.search import Searched
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings import Finding
from qwen3_parity.judge.op_verdict import Errors, OpVerdict
from qwen3_parity.slices.judge import Alone

FOUR, TWO = (f"its weight is in {bits} bits; told by 27 positions of 128 inputs" for bits in (4, 2))
NOTHING: Array = np.zeros(1)


def part(layers: int) -> Part:
    verdicts = [
        OpVerdict(f"layers.{layer}.up_proj", step, "linear", errors=Errors(9, 9, 9, 0), share=9 - layer)
        for layer in range(layers)
        for step in range(2)
    ]
    return Part(
        Fault("layers.{layer}.up_proj", wrong=tuple(verdicts)), [Alone(x, NOTHING) for x in verdicts], Searched()
    )


def parts(says: list[str], monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """What is made of layers of which these findings tell that they are in few bits, "" of what is otherwise."""
    monkeypatch.setattr(by_layer, "wrong_tap", lambda alone, network: alone.verdict.name)

    def finding(name: str) -> Finding | None:
        words = says[int(name.split(".")[1])]
        return Finding("structure.blocks", words, 1.0) if words else None

    monkeypatch.setattr(by_layer, "in_bits_of", finding)
    return by_layer.by_layer(part(len(says)), None, lambda fault: Searched(work=1))  # type: ignore[arg-type]


def layers_of(each: Part) -> set[str]:
    return {verdict.name.split(".")[1] for verdict in each.fault.wrong}


def test_layers_in_the_same_bits_are_a_place_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    (same,) = parts([FOUR, FOUR, FOUR], monkeypatch)
    assert layers_of(same) == {"0", "1", "2"} and not same.forms and not same.searched.work


def test_layers_in_several_bits_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    (every,) = parts([FOUR, TWO, FOUR], monkeypatch)
    assert every.forms == "layers 0, 2: its weight is in 4 bits; layer 1: its weight is in 2 bits"


def test_a_layer_that_is_otherwise_comes_first_and_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    otherwise, few = parts([FOUR, "", FOUR], monkeypatch)
    assert layers_of(otherwise) == {"1"} and layers_of(few) == {"0", "2"}
    assert otherwise.searched.work and {x.name for x in otherwise.fault.passing} == {x.name for x in few.fault.wrong}


def test_where_neither_of_two_layers_is_in_few_bits_no_more_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = parts(["", "", FOUR], monkeypatch)
    assert layers_of(whole) == {"0", "1", "2"} and not whole.forms
