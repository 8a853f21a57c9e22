"""What a recording was made with: libraries, platform, kernels, threads, seed. No time, no host, no path."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

import torch

from qwen3_golden import pb

_LIBRARIES = ("numpy", "torch", "transformers")


@cache
def _version(name: str) -> str:
    """A library's version; looking one up walks the installed packages, and it does not change."""
    return version(name)


def provenance(producer: str, seed: int = 0, *, more: tuple[str, ...] = ()) -> pb.Provenance:
    """The provenance of a recording made here and now by `producer`.

    `seed` is that of the case's inputs, `more` names libraries that made it besides NumPy, torch and transformers.
    """
    versions = {name: _version(name) for name in (*_LIBRARIES, *more)} | {"python": platform.python_version()}
    flags = {
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()).lower(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
    return pb.Provenance(
        producer=producer,
        versions=[pb.Pair(key=key, value=value) for key, value in sorted(versions.items())],
        platform=f"{platform.system().lower()}-{platform.machine()}",
        kernels=f"cpu {torch.backends.cpu.get_cpu_capability()}",
        threads=torch.get_num_threads(),
        seed=seed,
        flags=[pb.Pair(key=key, value=value) for key, value in sorted(flags.items())],
    )
