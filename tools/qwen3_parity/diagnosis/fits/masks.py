"""A wrong mask as bands and counts: which keys are wrongly visible or hidden, as seen from the query."""

from __future__ import annotations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_spec.site import Result, Site


def bands(evidence: Evidence, result: Result) -> Finding | None:
    """Counts of wrongly visible and wrongly hidden keys, their distances from the query, and one example of each."""
    truth, actual = result[0], evidence.actual
    if evidence.site.place.op != "mask" or truth.shape != actual.shape:
        return None
    wrong = (actual.astype(bool) != truth) & evidence.judged
    if not wrong.any():
        return None
    own = evidence.site.stop if evidence.site.stack == "decoder" else truth.shape[2]
    parts = [
        text
        for half, cells in (("own", wrong[..., :own]), ("encoder's", wrong[..., own:]))
        for text in _half(half, cells, truth, evidence.site, 0 if half == "own" else own)
    ]
    return Finding("mask.bands", "; ".join(parts), 0.5)


def _half(half: str, wrong: Array, truth: Array, site: Site, first: int) -> list[str]:
    found = []
    seen = truth[..., first : first + wrong.shape[2]]
    past = site.stop - site.length if site.stack == "decoder" else 0
    for says, cells in (("wrongly visible", wrong & ~seen), ("wrongly hidden", wrong & seen)):
        at = np.argwhere(cells)
        if not len(at):
            continue
        batch, query, key = (int(i) for i in at[0])
        text = f"{len(at)} of its {half} keys are {says}, such as key {key} for query {query} of batch row {batch}"
        if half == "own":
            distance = past + at[:, 1] - at[:, 2]
            text += f", {_span(distance)} slots before the query"
        rows = np.unique(at[:, 0])
        if len(rows) < len(wrong):
            text += f", batch rows {', '.join(map(str, rows))} alone"
        found.append(text)
    return found


def _span(distance: Array) -> str:
    low, high = int(distance.min()), int(distance.max())
    return str(low) if low == high else f"{low} to {high}"
