"""Hugging Face and torch run on a case, hooked, and written as a golden."""
