"""Hugging Face's models with their weights left on the disk: each module has its own while it runs, and no longer.

accelerate's hooks do the off-loading; the weights are views of the mapped checkpoint, so that what is in memory of them
is the system's page cache, which it drops when memory is short.
"""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import init_empty_weights
from accelerate.hooks import attach_align_device_hook

from qwen3_golden import pb
from qwen3_golden.weight_axes import EMBEDDING, HEAD
from qwen3_reference.checkpoints.stored import Stored, read_directory
from qwen3_reference.quiet import quiet


def as_torch(stored: Stored) -> torch.Tensor:
    """The tensor in the dtype in which it is stored, a view of its file; never write to it."""
    bits = stored.bits if stored.bits.flags.aligned else np.array(stored.bits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the array is read-only, which is what is wanted
        value = torch.from_numpy(bits)
    return value.view(torch.bfloat16) if stored.dtype == pb.BF16 else value


def converted(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in another dtype, in pages of its own, which go back to the system at once; a heap might keep them."""
    if value.dtype == dtype:
        return value
    pages = mmap.mmap(-1, value.numel() * dtype.itemsize)
    return torch.frombuffer(pages, dtype=dtype).view(value.shape).copy_(value)


class StoredWeights(Mapping[str, torch.Tensor]):
    """The parameters of HF's base model or causal LM by its own names, in `dtype`, had from a directory when asked for.

    A base model's names lack the prefix that they are stored with. A tied head that is not stored is the embedding.
    """

    def __init__(self, directory: Path, names: tuple[str, ...], dtype: torch.dtype) -> None:
        self.dtype = dtype
        stored = read_directory(directory)
        stored.setdefault(HEAD, stored[EMBEDDING])
        prefix = EMBEDDING.removesuffix("embed_tokens.weight")
        self._stored = {name: stored[name if name in stored else prefix + name] for name in names}

    def __getitem__(self, name: str) -> torch.Tensor:
        return converted(as_torch(self._stored[name]), self.dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def load_streamed(model_class: Any, config: Any, directory: Path, dtype: torch.dtype, attention: str) -> Any:
    """A `Loader`: the model without weights, each of which is there while its module runs, cast to `dtype` if need be.

    The checkpoint must have been checked (`load_weights`): a name that is missing is a `KeyError`.
    """
    with quiet(), init_empty_weights(include_buffers=False):  # RoPE's frequencies are computed, not loaded
        model = model_class._from_config(config, dtype=dtype, attn_implementation=attention)
    names = tuple(name for name, _ in model.named_parameters(remove_duplicate=False))
    attach_align_device_hook(
        model, execution_device=torch.device("cpu"), offload=True, weights_map=StoredWeights(directory, names, dtype)
    )
    return model.eval()
