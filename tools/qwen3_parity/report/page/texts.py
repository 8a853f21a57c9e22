"""A tokenizer's difference as people see it: the items of both sides, the first that differs marked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from qwen3_golden import Recording
from qwen3_golden.stages import STAGES_OF
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.text.inputs import messages_of
from qwen3_parity.text.table import TABLE
from qwen3_parity.text.view import View, printable

_BEFORE, _BEHIND, _MOST = 12, 12, 60
"""Items that are shown before and behind the first difference; texts that are shown of a case."""


def texts_of(golden: Recording, candidate: Recording, verdicts: Verdicts) -> list[dict[str, Any]]:
    """The first stage that differs of each text: its name, the text, and both sides item by item."""
    return [difference for difference, _ in zip(_differing(golden, candidate, verdicts), range(_MOST), strict=False)]


def _differing(golden: Recording, candidate: Recording, verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    wrong = {(tap.op, tap.step) for tap in verdicts.taps if not tap.passed}
    for kind, stages in STAGES_OF.items():
        pairs = zip(messages_of(golden.tokenization, kind), messages_of(candidate.tokenization, kind), strict=False)
        for index, (reference, ours) in enumerate(pairs):
            stage = next((name for name in stages if (name, index) in wrong), None)
            if stage is None:
                continue
            text = getattr(reference, "text", "")
            printed = printable(text) if isinstance(text, str) else ""
            sides = _sides(stage, reference, ours)
            yield {"name": printable(reference.name), "stage": stage, "index": index, "text": printed, **sides}


def _sides(stage: str, reference: Any, ours: Any) -> dict[str, Any]:
    expected, actual = TABLE[stage].views(reference), TABLE[stage].views(ours)
    empty = View((), str)
    for part in dict.fromkeys([*expected, *actual]):
        sides = expected.get(part, empty), actual.get(part, empty)
        nothing = object()
        pairs = enumerate(zip_longest(sides[0].items, sides[1].items, fillvalue=nothing))
        at = next((number for number, (a, b) in pairs if a != b), None)
        if at is not None:
            begin = max(at - _BEFORE, 0)
            shown = [_shown(side, begin, at + _BEHIND) for side in sides]
            return {"what": part, "at": at - begin, "from": begin, "expected": shown[0], "actual": shown[1]}
    return {"what": stage, "at": -1, "from": 0, "expected": [], "actual": []}


def _shown(view: View, begin: int, end: int) -> list[str]:
    return [printable(view.show(at)) for at in range(begin, min(end, len(view.items)))]
