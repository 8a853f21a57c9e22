"""Blame: every tap of a candidate computed again from the candidate's own inputs, so that each wrong op is found."""

from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.replay import replay
from qwen3_parity.blame.values import Values
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_spec.site import Result, Site

__all__ = ["Evidence", "OpVerdict", "Result", "Site", "Values", "replay"]
