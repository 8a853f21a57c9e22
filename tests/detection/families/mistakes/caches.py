"""Mistakes of caches and states, at the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer

from detection.families.mistakes.attention import attentions, paths
from detection.families.mistakes.seed import Seed, calling, mistake
from detection.families.patch import changed
from detection.families.subject import Subject

Pair = tuple[torch.Tensor, torch.Tensor]


def _read(subject: Subject, change: Callable[[torch.Tensor, torch.Tensor], Pair]) -> Seed | None:
    """What steps read of keys and values, changed."""
    every = attentions(subject)
    if not every or len(subject.steps) == 1:
        return None

    @contextmanager
    def on() -> Iterator[None]:
        with ExitStack() as stack:
            for layer in (DynamicLayer, DynamicSlidingWindowLayer):
                inner = layer.update

                def update(self: Any, key: Any, value: Any, *args: Any, inner: Any = inner, **kwargs: Any) -> Pair:
                    keys, values = inner(self, key, value, *args, **kwargs)
                    return change(keys, values) if keys.shape[-2] > key.shape[-2] else (keys, values)

                stack.enter_context(changed(layer, "update", update))
            yield

    return Seed(paths(every), on)


def _late(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[..., :-1, :], x[..., -2:-1, :]], -2)


@mistake
def the_new_key_is_the_one_before(subject: Subject) -> Seed | None:
    """A step reads its cache before it has written its key."""
    return _read(subject, lambda keys, values: (_late(keys), values))


@mistake
def the_new_value_is_the_one_before(subject: Subject) -> Seed | None:
    """The same of values."""
    return _read(subject, lambda keys, values: (keys, _late(values)))


@mistake
def values_one_place_on(subject: Subject) -> Seed | None:
    """Old values beside other keys."""
    return _read(
        subject, lambda keys, values: (keys, torch.cat([values[..., :-1, :].roll(1, -2), values[..., -1:, :]], -2))
    )


@mistake
def the_convolutions_state_is_turned_round(subject: Subject) -> Seed | None:
    """What a convolution keeps of the prefill, the newest first."""
    mixers = [path for path, _ in calling(subject, "conv1d")]
    every = {place for path in mixers for place in (path, path.rpartition(".")[0])}
    if not mixers or len(subject.steps) == 1:
        return None
    inner = LinearAttentionLayer.update_conv_state

    def update(self: Any, states: torch.Tensor, state_idx: int = 0, **kwargs: Any) -> torch.Tensor:
        first = not self.has_previous_state[state_idx]
        state = inner(self, states, state_idx, **kwargs)
        if first:
            state = state.clone()
            self.conv_states[state_idx].copy_(self.conv_states[state_idx].flip(-1))
        return state

    return Seed(tuple(sorted(every)), lambda: changed(LinearAttentionLayer, "update_conv_state", update))
