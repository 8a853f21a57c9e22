"""Hugging Face's tensor parallelism: one model over several processes, each of which has some heads and channels.

`torchrun` starts the processes; they talk over gloo, on the CPU. How the network is cut is transformers' own plan for
Qwen3 and Qwen2: rows of q, k, v, gate and up and columns of o and down, so that between those a process has its own
heads and channels alone. What o and down give is summed over the processes; logits are put together again. The
embedding is cut along the vocabulary and its rows are sums too, so a -0.0 in it comes out as 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed.tensor import DTensor
from transformers.distributed.configuration_utils import DistributedConfig

from qwen3_golden import ParityError, pb, place
from qwen3_reference.capture.models import load_in_memory
from qwen3_reference.capture.run import StepSink
from qwen3_reference.capture.sharded_processes import distributed, is_main

__all__ = ["check_divisible", "distributed", "gathered", "is_main", "load_sharded", "whole_sizes"]

_DIVIDED = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
"""The fields of config.json that the number of processes must divide."""
_CUT = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The linear layers of which every process must hold its share alone."""


def check_divisible(config: Any, processes: int, where: object) -> None:
    """Raise `ParityError` when heads or channels of HF's `config` cannot be dealt out evenly to the processes."""
    sizes = {field: int(getattr(config, field)) for field in _DIVIDED}
    common = math.gcd(*sizes.values())
    if common % processes == 0:
        return
    odd = [f"{field} {size}" for field, size in sizes.items() if size % processes]
    possible = [str(number) for number in range(1, common + 1) if common % number == 0]
    raise ParityError(
        where,
        f"the network cannot be cut into {processes} equal parts",
        expected=f"a number of processes that divides {', '.join(odd)}",
        got=f"{processes} processes",
        next_step=f"possible with this checkpoint: {', '.join(possible)}",
    )


def _check_cut(model: Any, processes: int, where: Path) -> None:
    """Hugging Face only warns when its plan meets no layer; then every process would hold the whole model."""
    for name, parameter in model.named_parameters():
        if name.endswith(tuple(f"{layer}.weight" for layer in _CUT)):
            local = parameter.to_local().numel() if isinstance(parameter, DTensor) else parameter.numel()
            if local * processes != parameter.numel():
                raise ParityError(
                    f"{where}: {name}",
                    "transformers did not cut this weight",
                    expected=f"{parameter.numel() // processes} of its {parameter.numel()} elements in each process",
                    got=local,
                    next_step="compare the base_model_tp_plan of this transformers with the one of 5.23",
                    fault="harness bug",
                )


def load_sharded(model_class: Any, config: Any, directory: Path, dtype: torch.dtype, attention: str) -> Any:
    """A `Loader`: every process of the group reads its own part of the weights, as transformers' plan says.

    Raises `ParityError` where heads, kv heads or intermediate channels are no multiple of the number of processes, and
    where transformers cannot cut the network so.
    """
    processes = dist.get_world_size()
    check_divisible(config, processes, directory / "config.json")
    plan = DistributedConfig(tp_size=processes, tp_plan="auto")
    try:
        model = load_in_memory(model_class, config, directory, dtype, attention, distributed_config=plan)
    except ValueError as error:  # older versions want a vocabulary that the number of processes divides, too
        raise ParityError(
            directory / "config.json",
            f"transformers cannot cut the network into {processes} parts",
            expected="a network, and a version of transformers, that its plan fits",
            got=error,
            next_step="run it with another number of processes, or with transformers 5.23",
        ) from None
    _check_cut(model, processes, directory)
    return model


def whole_sizes(name: str, config: pb.ModelConfig) -> dict[int, int]:
    """Axis number -> its size in the whole network, for those axes of a tap along which a network is cut."""
    known = place(name, config.num_hidden_layers)
    if known is None:
        return {}
    heads = config.num_attention_heads if name.endswith("q_proj") else config.num_key_value_heads
    sizes = {
        "heads": config.num_attention_heads,
        "kv_heads": config.num_key_value_heads,
        "channel": heads * config.head_dim,
        "intermediate": config.intermediate_size,
        "vocab": config.vocab_size,
    }
    return {number: sizes[axis] for number, axis in enumerate(known.axes) if axis in sizes}


def _gather(value: torch.Tensor, axis: int, processes: int) -> torch.Tensor:
    """All processes' parts behind one another along `axis`, in the order of ranks; only rank 0 gets them."""
    part = value.contiguous()
    parts = [torch.empty_like(part) for _ in range(processes)] if dist.get_rank() == 0 else None
    dist.gather(part, parts, dst=0)
    return part if parts is None else torch.cat(parts, dim=axis)


def gathered(config: pb.ModelConfig) -> Callable[[StepSink], StepSink]:
    """An `around`: what reaches the sink of rank 0 is whole. All processes must hand over the same taps in one order.

    A tap of which this process has 1/n along an axis (n processes) is gathered, one that is whole passes as it is; any
    other size is a `ParityError` that calls itself a harness bug.
    """
    processes = dist.get_world_size()

    def around(sink: StepSink) -> StepSink:
        def whole(step: int, name: str, value: torch.Tensor) -> None:
            for axis, size in whole_sizes(name, config).items():
                local = value.shape[axis]
                if local * processes == size:
                    value = _gather(value, axis, processes)
                elif local != size:
                    raise ParityError(
                        f"{name} (step {step})",
                        f"axis {axis} is neither whole nor the part of one of {processes} processes",
                        expected=f"{size} or {size / processes:g}",
                        got=local,
                        next_step="find where transformers gathers this tensor, or cuts it otherwise",
                        fault="harness bug",
                    )
            sink(step, name, value)

        return whole

    return around
