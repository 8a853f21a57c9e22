"""The table of ops against the committed cases of one op: every tensor, every axis, every number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_golden.op_table import OP_TABLE

GOLDENS = [read(path) for path in sorted((GOLDEN_ROOT / "cases" / "op").glob("*.pb"))]
DTYPES = {"input.ids": {pb.I64}, "input.position_ids": {pb.I64}}


def numbers_of(golden: Recording) -> dict[str, float]:
    return {attribute.key: attribute.value for attribute in golden.case.attributes}


def test_every_op_of_the_table_has_a_case() -> None:
    assert {golden.case.op for golden in GOLDENS} == set(OP_TABLE)


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.case.name)
def test_a_case_has_the_tensors_the_axes_and_the_numbers_of_its_row(golden: Recording) -> None:
    row, arrays = OP_TABLE[golden.case.op], {item.info.name: item.array for item in golden}
    assert row.sizes(arrays) and set(arrays) <= set(row.tensors)
    floats = {pb.F32, pb.BF16, pb.F16} if golden.case.op == "rms_norm" else {pb.F32}
    for item in golden:
        name, recorded = item.info.name, row.tensors[item.info.name].recorded_axes
        assert tuple(item.info.axes) == (recorded if name.startswith("output.") else ()), name
        assert item.info.dtype in ({pb.BOOL} if name.endswith("mask") else DTYPES.get(name, floats)), name
    numbers = numbers_of(golden)
    assert set(numbers) == set(row.numbers(numbers))
    assert all(row.numbers(numbers)[name] == value for name, value in numbers.items())


def test_what_may_be_absent_is_absent_somewhere() -> None:
    optional, absent = set[tuple[str, str]](), set[tuple[str, str]]()
    for golden in GOLDENS:
        op, row = golden.case.op, OP_TABLE[golden.case.op]
        names = {name for name, each in row.tensors.items() if each.optional} | row.optional
        present = {item.info.name for item in golden} | set(numbers_of(golden))
        optional |= {(op, name) for name in names}
        absent |= {(op, name) for name in names - present}
    assert absent == optional != set()


ROW = OP_TABLE["linear"]
ARRAYS = {"input.x": np.ones((2, 3, 4)), "parameter.weight": np.ones((5, 4)), "output.y": np.ones((2, 3, 5))}


@pytest.mark.parametrize(
    ("error", "match", "refused"),
    [
        (KeyError, "parameter.weight", lambda: ROW.sizes({"input.x": ARRAYS["input.x"]})),
        (ValueError, "along in", lambda: ROW.sizes(ARRAYS | {"parameter.weight": np.ones((5, 7))})),
        (ValueError, "argument", lambda: ROW.sizes(ARRAYS | {"parameter.weight": np.ones(4)})),
        (KeyError, "eps", lambda: OP_TABLE["rms_norm"].numbers({})),
        (KeyError, "input.x", lambda: ROW.computed(np.matmul, {}, {})),
    ],
)
def test_what_is_absent_or_disagrees_is_an_error(
    error: type[Exception], match: str, refused: Callable[[], object]
) -> None:
    with pytest.raises(error, match=match):
        refused()


def test_an_absent_operand_is_none_and_numbers_go_by_name_with_their_type() -> None:
    given = list[object]()
    computed = OP_TABLE["mask"].computed(
        lambda *operands, **numbers: given.extend((operands, numbers)) or 7,
        {"input.decoder_attention_mask": 5},
        {"query": 3.0, "window": 0.0},
    )
    assert computed == {"output.mask": 7} and str(given) == "[(None, 5), {'query': 3, 'window': 0}]"
