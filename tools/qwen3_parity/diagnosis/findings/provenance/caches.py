"""What a wrong cache is called, by what stands in its slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap

_MOST = 0.75
"""The share of slots with unknown contents from which on that is all there is to say: two requests may share a token,
whose values in the first layer are the same bits."""
UNWRITTEN = {"zeros", "not_finite", "constant"}
"""What memory holds that nobody wrote."""
_CLOSE = 0.2
"""An error of this part of the size is no other content."""


def in_cache(tap: WrongTap, at: Array, nowhere: Array, kinds: Sequence[str], text: Callable[[], str]) -> Finding | None:
    """The finding of a cache whose wrong places (`[place, (batch row, slot, …)]`) hold these `kinds` of contents.

    It is stale where the golden of the request before has what it holds, and not where nobody knows it (`nowhere`).
    """
    if len(nowhere) and _new_alone(tap, at):
        return None  # what was wrong before it was written
    if "earlier_request" in kinds:
        return Finding("cache.stale", f"{text()}: a request begins with an empty cache", 1.0)
    if len(nowhere) >= _MOST * len(at):
        return None if _close(tap) else Finding("cache.unknown", text(), 0.5)
    if not len(nowhere) and set(kinds) <= UNWRITTEN:
        return Finding("cache.not_written", text(), 1.0)
    return Finding("cache.slot_map", text(), 0.5 if len(nowhere) else 1.0)


def _new_alone(tap: WrongTap, at: Array) -> bool:
    """Whether only slots that this step writes are wrong, in a tap that hides the ops before it."""
    before = tap.recorded(tap.name, tap.step - 1)
    past = 0 if before is None else before.shape[tap.axes.index("key")]
    return len(tap.ops) > 1 and bool((at[:, 1] >= past).all())


def _close(tap: WrongTap) -> bool:
    """Whether the contents are the right ones but for a small error."""
    error = float(np.sqrt(np.mean((tap.actual - tap.truth)[tap.judged] ** 2)))
    return error < _CLOSE * float(np.sqrt(np.mean(tap.truth[tap.judged] ** 2)))
