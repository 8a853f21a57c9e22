"""Honest variations: other ways to compute the same network. All of them must pass, with nobody blamed."""

from detection.honest.run import VARIATIONS, Outcome, judge, network_goldens, record_all, run
from detection.honest.variation import Variation

__all__ = ["VARIATIONS", "Outcome", "Variation", "judge", "network_goldens", "record_all", "run"]
