"""Hugging Face and torch run on a case, hooked, and written as a golden."""

from qwen3_reference import versions

__all__ = ["versions"]
