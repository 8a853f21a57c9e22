"""How much memory a model takes, and how much there is."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from qwen3_reference.checkpoints.stored import read_directory


def available_memory() -> int:
    """Bytes that a program can have now: free, or held by caches that give way; all of it where that is not known."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def model_bytes(directory: Path, dtype: torch.dtype) -> int:
    """Bytes of the parameters of one model from a checkpoint; raises `ParityError` for one that cannot be read."""
    return sum(tensor.bits.size for tensor in read_directory(directory).values()) * dtype.itemsize
