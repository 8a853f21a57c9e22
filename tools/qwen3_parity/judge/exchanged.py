"""A recording in the place of a golden, or the two exchanged: seen by what only goldens have."""

from __future__ import annotations

from qwen3_golden import ParityError, Recording, pb
from qwen3_golden.rules import REFERENCE
from qwen3_parity.judge.next_command import show_command

SPECIFICATION = "qwen3_spec"
"""The producer of a golden whose truth is the specification itself."""
_EXACT = (pb.OP, pb.PLUMBING, pb.TOKENIZATION)
"""Cases whose goldens need no floor, whoever made them."""


def is_golden(recording: Recording) -> bool:
    """Whether a recording of a network can be judged by: it is the reference's, or has a graph or a noise floor."""
    if recording.provenance.producer in (REFERENCE, SPECIFICATION) or recording.graph.ByteSize():
        return True
    if recording.case.mode in _EXACT or not len(recording.tensors):
        return True
    return any(item.info.HasField("floor") for item in recording)


def refuse_no_golden(golden: Recording, candidate: Recording) -> None:
    """Raise `ParityError` when what is to be judged by is no golden; `candidate` may be the golden."""
    if is_golden(golden):
        return
    maker = golden.provenance.producer or "an unnamed implementation"
    if is_golden(candidate):
        raise ParityError(
            golden.source,
            f"the first file is a recording of {maker}, the second is a golden",
            expected="the golden before the recording",
            got=f"{golden.source} {candidate.source}",
            next_step=f"exchange them: {candidate.source} {golden.source}",
        )
    raise ParityError(
        golden.source,
        f"the first file is a recording of {maker}, no golden, so nothing can be judged by it",
        expected=f"the golden of the case {golden.case.name}, with a graph or noise floors",
        got="neither",
        next_step=f"{show_command(golden.case.name, golden.source)} says its case; give the golden of it, then the "
        "recordings one by one, or a folder of them",
    )
