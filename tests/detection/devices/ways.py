"""The ways to run a case on a device, as data: whose model, which attention, with products in TF32 or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

OURS, HUGGING_FACE = "ours", "transformers"


@dataclass(frozen=True)
class Way:
    """One way: `attention` is "eager", "sdpa", "flex" or "compiled"; `kernel` the one that SDPA must take."""

    model: str
    attention: str
    kernel: SDPBackend | None = None
    tf32: bool = False

    @property
    def name(self) -> str:
        """How the table calls it."""
        parts = (self.model, self.attention, self.kernel and self.kernel.name.lower(), "TF32" if self.tf32 else None)
        return " ".join(part for part in parts if part)

    @property
    def around(self) -> Callable[[], AbstractContextManager[object]]:
        """What is in force while the model runs: SDPA's kernel."""
        kernel = self.kernel
        return nullcontext if kernel is None else lambda: sdpa_kernel([kernel])


@contextmanager
def products_in_tf32(on: bool) -> Iterator[None]:
    """Inside, float32 products may be made of TF32 numbers, or must not be."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if on else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


KERNELS = (
    SDPBackend.MATH,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
)
WAYS = (
    *(Way(model, attention) for model in (OURS, HUGGING_FACE) for attention in ("eager", "sdpa", "flex")),
    *(Way(OURS, "sdpa", kernel) for kernel in KERNELS),
    Way(OURS, "compiled"),
    *(Way(model, attention, tf32=True) for model in (OURS, HUGGING_FACE) for attention in ("eager", "sdpa")),
)
