"""A wrong mask as bands and counts: which keys are wrongly visible or hidden, as seen from the query."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.numbers.drawn import LEGEND, drawn, row_in_words
from qwen3_parity.diagnosis.findings.numbers.positions import begin
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.judge.indices import ranges


def bands(tap: WrongTap) -> Finding | None:
    """Counts of wrongly visible and wrongly hidden keys, their distances from the query, and one example of each."""
    if tap.truth.dtype.kind != "b" or tap.axes != ("batch", "query", "key"):
        return None
    wrong = (tap.actual.astype(bool) != tap.truth) & tap.judged
    if not wrong.any():
        return None
    past = begin(tap)
    own_keys = wrong.shape[2] if past is None else min(past + wrong.shape[1], wrong.shape[2])
    parts = [
        *_half("keys" if past is None else "own keys", wrong[..., :own_keys], tap.truth[..., :own_keys], past),
        *_half("encoder's keys", wrong[..., own_keys:], tap.truth[..., own_keys:], None),
    ]
    if (moved := _as_another(tap, wrong)) is not None:
        parts.append(moved)
    first = tuple(int(i) for i in np.argwhere(wrong.any(-1))[0])
    picture = drawn(tap.truth[first], np.where(tap.judged[first], tap.actual[first], tap.truth[first]).astype(bool))
    parts.append(f"{row_in_words(tap.axes, first)}: {picture} ({LEGEND})")
    return Finding("mask.bands", "; ".join(parts), 0.5)


def _as_another(tap: WrongTap, wrong: Array) -> str | None:
    """Whose keys each wrong query sees, where it is always another query's of the same batch row."""
    queries: dict[int, set[int]] = {}
    for batch, query in np.argwhere(wrong.any(-1)):
        alike = (tap.truth[batch] == tap.actual[batch, query].astype(bool)).all(-1)
        here = {int(at) for at in np.flatnonzero(alike)}
        queries[int(query)] = queries.get(int(query), here) & here
        if not queries[int(query)]:
            return None
    common = set.intersection(*queries.values())
    if common:
        return f"queries {ranges(queries)} see what query {min(common)} should"
    seen_by = [f"query {query} sees what query {min(others)} should" for query, others in sorted(queries.items())]
    return ", ".join(seen_by[:4]) + (" …" if len(seen_by) > 4 else "")


def _half(half: str, wrong: Array, visible: Array, past: int | None) -> list[str]:
    texts = []
    for says, cells in (("wrongly visible", wrong & ~visible), ("wrongly hidden", wrong & visible)):
        at = np.argwhere(cells)
        if not len(at):
            continue
        batch, query, key = (int(i) for i in at[0])
        text = f"{len(at)} of its {half} are {says}, such as key {key} for query {query} of batch row {batch}"
        if past is not None:
            text += f", {_span(past + at[:, 1] - at[:, 2])}"
        rows = np.unique(at[:, 0])
        if len(rows) < len(wrong):
            text += f", batch rows {', '.join(map(str, rows))} alone"
        texts.append(text)
    return texts


def _span(distance: Array) -> str:
    """How far keys stand from the query, in words: behind it, ahead of it, or both."""
    behind, ahead = distance[distance > 0], -distance[distance < 0]
    parts = [f"{_slots(behind)} before the query"] if len(behind) else []
    parts += ["the query's own slot"] if (distance == 0).any() else []
    parts += [f"{_slots(ahead)} ahead of the query: later tokens"] if len(ahead) else []
    return " and ".join(parts)


def _slots(distance: Array) -> str:
    low, high = int(distance.min()), int(distance.max())
    return f"{low} slot{'s' * (low > 1)}" if low == high else f"{low} to {high} slots"
