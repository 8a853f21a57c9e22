"""The judge: compares recordings tap by tap, within budgets, and says what is wrong. Files in, verdicts out."""

from qwen3_parity.blame import OpVerdict, replay
from qwen3_parity.check import check
from qwen3_parity.judge.compare import Metrics, compare
from qwen3_parity.judge.verdict import Problem, Verdict, Verdicts

__all__ = ["Metrics", "OpVerdict", "Problem", "Verdict", "Verdicts", "check", "compare", "replay"]
