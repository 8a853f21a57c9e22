"""Hugging Face's layers, of which those that were finished before are not computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from qwen3_reference.capture.merged_cache import MergedCache
from qwen3_reference.floors.resume import Pass
from qwen3_reference.torch_tensors import to_numpy, to_torch


def _keep(run: Pass, key: str, value: torch.Tensor) -> None:
    array, dtype = to_numpy(value)
    run.keep(key, array, dtype)


def _replace(module: nn.Module, forward: Callable[..., Any], undo: ExitStack) -> None:
    """Set `module.forward` until `undo`; an attribute of the module itself may have been there before."""
    attributes = vars(module)
    if "forward" in attributes:
        undo.callback(attributes.__setitem__, "forward", attributes["forward"])
    else:
        undo.callback(attributes.pop, "forward")
    attributes["forward"] = forward


def _resume(run: Pass, layer: Any, index: int, cache: MergedCache | None, undo: ExitStack) -> None:
    compute = layer.forward

    def forward(*args: Any, **kwargs: Any) -> torch.Tensor:
        state = run.stored_state()
        if state is None:
            remembered = cache is not None and index in cache.encoder_states
            output: torch.Tensor = compute(*args, **kwargs)
            _keep(run, "output", output)
            if cache is not None:
                new = slice(-output.shape[1], None)
                held: Any = cache.layers[index]
                _keep(run, "keys", held.keys[:, :, new])
                _keep(run, "values", held.values[:, :, new])
                if index in cache.encoder_states and not remembered:
                    _keep(run, "encoder_keys", cache.encoder_states[index][0])
                    _keep(run, "encoder_values", cache.encoder_states[index][1])
            return output
        tensors = {key: to_torch(item.array, item.info.dtype) for key, item in state.items()}
        if cache is not None:
            if "encoder_keys" in tensors:
                cache.encoder_states[index] = tensors["encoder_keys"], tensors["encoder_values"]
            cache.update(tensors["keys"], tensors["values"], index)
        return tensors["output"]

    _replace(layer, forward, undo)
    # Registered last, so called behind the hook that hands over the layer's output.
    undo.callback(layer.register_forward_hook(lambda *_: run.leave()).remove)


@contextmanager
def resumed(run: Pass, layers: Sequence[nn.Module], cache: MergedCache | None) -> Iterator[None]:
    """Inside the `with`, layers leave with `run` what they made, and finished ones give back what they left.

    Enter it behind `attach`: the layer's own taps come first. `cache` is the decoder's, None for the encoder.
    """
    with ExitStack() as undo:
        for index, layer in enumerate(layers):
            _resume(run, layer, index, cache, undo)
        yield
