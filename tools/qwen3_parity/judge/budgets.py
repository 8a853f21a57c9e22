"""How much error is allowed: headrooms from golden/tolerances.textproto, times a noise floor or a rounding unit."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

from google.protobuf import text_format

from qwen3_golden import TABLES_ROOT, ParityError, Recording, Tensor, pb
from qwen3_parity.judge.compare import Metrics

ROUNDOFF: dict[int, float] = {
    pb.F64: 2.0**-53,
    pb.F32: 2.0**-24,
    pb.F16: 2.0**-11,
    pb.BF16: 2.0**-8,
}
"""Half the distance of neighbouring numbers at 1 (what one rounding may move), by dtype of the schema."""


class Headroom(NamedTuple):
    """How many floors (kind "run") or rounding units (kind "op") are allowed; absolute numbers without a unit."""

    rms: float
    max: float
    row: float
    head: float


class Shares(NamedTuple):
    """Error over budget, 1 = all of it used; 0 for a row or head that a tap does not have."""

    rms: float
    max: float
    row: float
    head: float

    @property
    def worst(self) -> float:
        """The largest of the four; NaN when one of them is, so that it can never pass."""
        return math.nan if any(math.isnan(share) for share in self) else max(self)


@cache
def _rows() -> dict[tuple[str, str], Headroom]:
    text = (TABLES_ROOT / "tolerances.textproto").read_text(encoding="utf-8")
    table = text_format.Parse(text, pb.Tolerances())
    return {(row.kind, row.op): Headroom(row.rms, row.max, row.row, row.head) for row in table.headroom}


def headroom(kind: str, op: str = "") -> Headroom:
    """The row of this kind ("run" or "op") and op, or the kind's common row; raises `ParityError` without either."""
    rows = _rows()
    row = rows.get((kind, op)) or rows.get((kind, ""))
    if row is None or not all(value > 0 for value in row):
        raise ParityError(
            TABLES_ROOT / "tolerances.textproto",
            f"no headroom for {kind} {op!r}",
            expected="a row with four numbers above 0",
            got=row,
            next_step="add the row, with what was measured",
            fault="harness bug",
        )
    return row


def reach(floor_max: float) -> float:
    """How far apart two logits must be for honest float32 never to exchange them: each may use its whole budget."""
    return 2 * headroom("run", "linear").max * floor_max


def floor_for(candidate: Recording, expected: Tensor) -> pb.Floor:
    """The floor by which a candidate's tap is judged: the wider one where it rotates by angles of its own."""
    own_angles = expected.info.HasField("own_angles_floor") and not candidate.run.golden_tables
    return expected.info.own_angles_floor if own_angles else expected.info.floor


def _share(error: float, budget: float) -> float:
    if error == 0:
        return 0.0
    return error / budget if budget > 0 else math.inf


def shares(metrics: Metrics, floor: pb.Floor, allowed: Headroom) -> Shares:
    """What part of `allowed` × `floor` the errors use; a floor of 0 allows nothing."""
    return Shares(
        _share(metrics.rms, allowed.rms * floor.rms),
        _share(metrics.max, allowed.max * floor.max),
        _share(metrics.row, allowed.row * floor.row) if metrics.row_index else 0.0,
        _share(metrics.head, allowed.head * floor.head) if metrics.head_index else 0.0,
    )


FAR = 1e12
"""What is farther off than so many budgets is said to be: of a budget that is next to nothing anything is."""


def percent(share: float) -> str:
    """A share of a budget as a person reads it: "12 %", "370 ×", "any"."""
    if not math.isfinite(share):
        return "no budget"
    if share == 0:
        return "0"
    if share >= FAR:
        return f"over {FAR:.0e} ×"
    if share >= 10:
        return f"{share:.3g} ×"
    return f"{100 * share:.2g} %" if share < 0.99 else f"{100 * share:.0f} %"
