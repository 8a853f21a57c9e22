"""The library of named mistakes: for a wrong op, every way in which it is known to go wrong."""

from qwen3_parity.mistakes.hypothesis import Compute, Hypothesis, Library, OfSite, with_config

__all__ = ["Compute", "Hypothesis", "Library", "OfSite", "with_config"]
