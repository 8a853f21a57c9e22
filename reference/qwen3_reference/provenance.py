"""What a recording was made with: libraries, platform, kernels, threads, seed. No time, no host, no path."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from torch import distributed as dist

from qwen3_golden import pb

_LIBRARIES = ("numpy", "torch", "transformers")
_EXTENSIONS = ("avx512_bf16", "avx512_fp16", "amx_tile")


@cache
def _version(name: str) -> str:
    """A library's version, "" where it is not there; looking it up walks the packages, and it does not change."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


@cache
def _kernels() -> str:
    """torch's level of vector instructions, and what else its libraries choose kernels by: extensions, the CPU's model.

    Two processors with the same instructions differ in bits: MKL multiplies in other blocks on another model.
    """
    has: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every supported torch
    extensions = [name for name in _EXTENSIONS if has.get(name)]
    return " ".join(["cpu", torch.backends.cpu.get_cpu_capability(), *extensions, *_model()])


def _model() -> list[str]:
    """The vendor, family and model of the processor where Linux says them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return []
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return [said[key] for key in ("vendor_id", "cpu family", "model") if key in said]


def provenance(producer: str, seed: int = 0, *, more: tuple[str, ...] = ()) -> pb.Provenance:
    """The provenance of a recording made here and now by `producer`.

    `seed` is that of the case's inputs, `more` names libraries that made it besides NumPy, torch and transformers.
    """
    installed = {name: _version(name) for name in (*_LIBRARIES, *more)} | {"python": platform.python_version()}
    flags = {
        "deterministic_algorithms": str(torch.are_deterministic_algorithms_enabled()).lower(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }
    if dist.is_initialized():
        flags["tensor_parallel"] = str(dist.get_world_size())
    return pb.Provenance(
        producer=producer,
        versions=[pb.Pair(key=key, value=value) for key, value in sorted(installed.items()) if value],
        platform=f"{platform.system().lower()}-{platform.machine()}",
        kernels=_kernels(),
        threads=torch.get_num_threads(),
        seed=seed,
        flags=[pb.Pair(key=key, value=value) for key, value in sorted(flags.items())],
    )
