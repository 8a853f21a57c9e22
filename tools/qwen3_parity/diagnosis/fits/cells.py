"""The wrong cells of a tap that a formula of the specification judges."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.judge.budgets import headroom
from qwen3_spec.site import Result


def wrong_cells(evidence: Evidence, result: Result) -> Array | None:
    """Bool, True = judged and beyond the op's headroom; None for another shape."""
    errors = evidence.errors(result)
    return None if errors is None else np.asarray(errors > max(headroom("op", op).max for op in evidence.ops))
