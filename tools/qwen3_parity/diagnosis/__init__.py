"""Diagnosis: blame, plus the mistake that reproduces the candidate's wrong numbers, or what the numbers say."""

from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.diagnose import diagnose
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault

__all__ = ["Diagnosis", "Explanation", "Fault", "diagnose"]
