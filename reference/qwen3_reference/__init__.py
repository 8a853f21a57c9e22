"""Hugging Face's Qwen3 as the reference: what it computes, recorded as golden files, and how far float32 may drift.

This is the only package that imports `transformers.models`. `capture`, `cases` and `tokenization` need it; `floors` and
what reads the files of `checkpoints` need NumPy alone.
"""
