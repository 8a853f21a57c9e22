"""Logits of the last position alone, as an engine has them that generates."""

from __future__ import annotations

from collections.abc import Mapping

from qwen3_golden import Array, Recording
from qwen3_parity.judge.tap_verdict import last_rows_of


def last_logits(
    actual: Recording, expected: Recording, _weights: Mapping[str, Array] | None
) -> tuple[Recording, list[str]]:
    """The recording as it is, and in which steps its logits are those of the last position alone."""
    pairs = [(item, expected.get(*item.key)) for item in actual if item.info.name == "logits"]
    steps = sorted(
        item.info.step for item, golden_tap in pairs if golden_tap is not None and last_rows_of(item, golden_tap)
    )
    if not steps:
        return actual, []
    where = "step" if len(steps) == 1 else "steps"
    return actual, [f"logits of the last position alone in {where} {', '.join(map(str, steps))}: compared there"]
