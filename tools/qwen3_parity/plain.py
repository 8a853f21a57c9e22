"""Verdicts for machines: what JSON can say of them."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qwen3_parity.verdict import Verdict


def tap_json(tap: Verdict) -> dict[str, Any]:
    """One tap as plain dicts, lists, strings and numbers."""
    out: dict[str, Any] = {"name": tap.name, "step": tap.step, "op": tap.op, "exact": tap.exact, "passed": tap.passed}
    out["share"] = plain(tap.share)
    if tap.shares is not None:
        out["shares"] = plain(tap.shares._asdict())
    if tap.metrics is not None:
        out["metrics"] = plain(asdict(tap.metrics))
    if tap.own is not None:
        own, errors = tap.own, plain(tap.own.errors._asdict())
        out["own"] = {"share": plain(own.share), "errors": errors, "passed": own.passed, "reason": own.reason}
    return out


def plain(value: Any) -> Any:
    """The value with what JSON cannot say (NaN, infinities) as strings and tuples as lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
