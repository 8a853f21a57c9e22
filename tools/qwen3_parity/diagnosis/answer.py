"""Everything that a diagnosis says about a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qwen3_parity.diagnosis.casts import Casts
from qwen3_parity.diagnosis.elsewhere import Elsewhere
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.near_ties import Flip
from qwen3_parity.diagnosis.own_angles import Angles
from qwen3_parity.diagnosis.parameters import ParameterFault
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import Verdicts


@dataclass(frozen=True)
class Diagnosis:
    """Everything known about a candidate: the whole run judged (`verdicts`), every op `alone`, the faults.

    `misplaced` are taps that were recorded at another place; the model is right there. `parameters` were not loaded as
    they are stored. `flips` are positions where another token is the best, near-ties among them. `failures` are
    hypotheses of ours that could not be tried. `casts` are places that round elsewhere than Hugging Face, in bfloat16
    or float16; nobody is judged by them. `angles`: how far the candidate's are from the golden's, where the run is
    wrong and every op is right alone; `meaning` says what that means, and what a request before may have to do with it.
    `work` is what the search came to, counted in evaluated elements.
    """

    verdicts: Verdicts
    alone: Sequence[OpVerdict]
    faults: Sequence[Explained]
    misplaced: Sequence[Elsewhere]
    parameters: Sequence[ParameterFault]
    flips: Sequence[Flip] = ()
    failures: Sequence[str] = ()
    casts: Sequence[Casts] = ()
    angles: Angles | None = None
    meaning: Sequence[str] = ()
    work: int = 0
