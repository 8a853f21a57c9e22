"""What a recording was made with: libraries, platform, kernels, threads, seed. No time, no host, no path."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version

import torch
from torch import distributed as dist

from qwen3_golden import pb

_LIBRARIES = ("numpy", "torch", "transformers")
_EXTENSIONS = ("avx512_bf16", "avx512_fp16", "amx_tile")


@cache
def _version(name: str) -> str:
    """A library's version; looking one up walks the installed packages, and it does not change."""
    return version(name)


@cache
def _kernels() -> str:
    """torch's level of vector instructions, and the extensions by which its libraries choose other kernels in it."""
    has: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every supported torch
    return " ".join(["cpu", torch.backends.cpu.get_cpu_capability(), *(name for name in _EXTENSIONS if has.get(name))])


def provenance(producer: str, seed: int = 0, *, more: tuple[str, ...] = ()) -> pb.Provenance:
    """The provenance of a recording made here and now by `producer`.

    `seed` is that of the case's inputs, `more` names libraries that made it besides NumPy, torch and transformers.
    """
    versions = {name: _version(name) for name in (*_LIBRARIES, *more)} | {"python": platform.python_version()}
    flags = {
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()).lower(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
    if dist.is_initialized():
        flags["tensor_parallel"] = str(dist.get_world_size())
    return pb.Provenance(
        producer=producer,
        versions=[pb.Pair(key=key, value=value) for key, value in sorted(versions.items())],
        platform=f"{platform.system().lower()}-{platform.machine()}",
        kernels=_kernels(),
        threads=torch.get_num_threads(),
        seed=seed,
        flags=[pb.Pair(key=key, value=value) for key, value in sorted(flags.items())],
    )
