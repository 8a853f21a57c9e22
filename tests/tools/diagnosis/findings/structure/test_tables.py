"""A code that is read as another number is told with the number, by a few positions and by the weight as loaded."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.product import Product, by_held
from qwen3_parity.diagnosis.findings.structure.few_bits import GRIDS, SCALES, Held
from qwen3_parity.diagnosis.findings.structure.tables import other_table

DRAWS = np.random.Generator(np.random.PCG64(11))
W, X = DRAWS.standard_normal((24, 64)).astype(np.float32), DRAWS.standard_normal((10, 64))


def held(name: str) -> Held:
    grid = next(grid for grid in GRIDS if grid.says.startswith(name))
    return grid.hold(W.reshape(-1, 32), SCALES[0][1])


def said(weight: Array, *, whole: bool) -> tuple[str, str, float] | None:
    y = X @ weight.astype(np.float64).T
    product = Product("w", X, W.astype(np.float64), np.zeros(len(W)), y, np.zeros(y.shape), 12.0)
    return other_table(by_held(product, weight.astype(np.float64)) if whole else product)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("name", "code", "read"), [("MXFP4", 6.0, 8.0), ("NF4", -1.0, -0.5)])
def test_a_code_that_is_read_as_another_number_is_told(name: str, code: float, read: float, *, whole: bool) -> None:
    stored = held(name)
    weight = stored._replace(codes=np.where(stored.codes == code, np.float32(read), stored.codes)).numbers
    finding = said(weight.reshape(W.shape), whole=whole)
    assert finding is not None and finding[0] == "structure.misread"
    assert finding[1].endswith(f"its codes are read by another table: {code:g} as {read:g}")


@pytest.mark.parametrize("name", ["MXFP4", "NF4"])
def test_the_right_table_is_no_other(name: str) -> None:
    assert said(held(name).numbers.reshape(W.shape), whole=True) is None
