"""Mistakes of people who write a model again, seeded into Hugging Face's own, in whatever family has the part."""

from detection.families.mistakes import attention, caches, feedforward, layers, norms, positions, weights
from detection.families.mistakes.seed import MISTAKES, Seed

__all__ = ["MISTAKES", "Seed", "attention", "caches", "feedforward", "layers", "norms", "positions", "weights"]
