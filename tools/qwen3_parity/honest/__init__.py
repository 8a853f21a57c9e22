"""Honest variations: other ways to compute the same network. All of them must pass, with nobody blamed."""

from qwen3_parity.honest.run import VARIATIONS, Outcome, judge, network_goldens, record_all, run
from qwen3_parity.honest.variation import Variation

__all__ = ["VARIATIONS", "Outcome", "Variation", "judge", "network_goldens", "record_all", "run"]
