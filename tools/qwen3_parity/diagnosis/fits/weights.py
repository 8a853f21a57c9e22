"""Whether another weight would give a linear's numbers: the last thing to say of them."""

from __future__ import annotations

from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.diagnosis.fits.finding import Finding
from qwen3_parity.mistakes.linear_fitted import weight_told
from qwen3_parity.mistakes.parameters import loaded_as_stored
from qwen3_spec.site import Result


def any_weight(evidence: Evidence, _: Result) -> Finding | None:
    """Too few positions to tell a weight by, so that one fits; or one that was loaded as it is stored, and fits not."""
    told, loaded = weight_told(evidence.site), loaded_as_stored(evidence.site)
    if told is None or evidence.others or told.fewer == loaded:
        return None
    if loaded:
        says = (
            "one other weight gives these numbers at every position, though what was loaded is the checkpoint's by its "
            "digest: what becomes of it afterwards?"
        )
        return Finding("fit.weight", says, 0.5)
    says = (
        "a weight of no tensor of the checkpoint would fit, too: "
        f"{told.positions} different positions cannot tell {told.columns} weights"
    )
    return Finding("fit.weight", says, 0.05)
