"""Mistakes of attention: scale, softmax, key and value heads, masks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from detection.families.mistakes.seed import Seed, last, mistake
from detection.families.patch import arguments_of, changed, functions_in
from detection.families.subject import Subject

_SCALES = ("scaling", "scale", "norm_factor", "inv_norm_factor", "softmax_scale")


def attentions(subject: Subject) -> list[tuple[str, nn.Module]]:
    """Modules that do attention, the innermost that are called so."""
    every = [(p, m) for p, m in subject.modules() if "Attention" in type(m).__name__ and subject.calls[p]["softmax"]]
    return [(p, m) for p, m in every if not any(inner.startswith(f"{p}.") for inner, _ in every)]


def paths(modules: list[tuple[str, nn.Module]]) -> tuple[str, ...]:
    """The paths alone."""
    return tuple(path for path, _ in modules)


@mistake
def attention_scale(subject: Subject) -> Seed | None:
    """Scores a tenth too large."""
    attention = last(attentions(subject))
    name = next((n for n in _SCALES if attention and isinstance(getattr(attention[1], n, None), float)), None)
    if attention is None or name is None:
        return None
    return Seed((attention[0],), lambda: changed(attention[1], name, 1.1 * getattr(attention[1], name)))


@mistake
def softmax_in_bfloat16(subject: Subject) -> Seed | None:
    """Probabilities of a layer in half precision, where the reference has float32."""
    attention = last(attentions(subject), before=1)
    if attention is None:
        return None

    def around(softmax: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        x_narrow = x.clamp(min=torch.finfo(torch.bfloat16).min).bfloat16()
        probs: torch.Tensor = softmax(x_narrow, *args, **{**kwargs, "dtype": torch.bfloat16}).to(x.dtype)
        return probs

    return Seed((attention[0],), lambda: functions_in(attention[1], {"softmax": around}))


@mistake
def key_heads_in_turn(subject: Subject) -> Seed | None:
    """The key heads one after the other, again and again, for each of them beside itself."""
    several = [(p, m) for p, m in attentions(subject) if getattr(m, "num_key_value_groups", 1) > 1]
    module = sys.modules[type(several[0][1]).__module__] if several else None
    if not hasattr(module, "repeat_kv"):
        return None
    return Seed(paths(several), lambda: changed(module, "repeat_kv", lambda x, count: x.repeat(1, count, 1, 1)))


def _masks(subject: Subject, change: Callable[[torch.Tensor], torch.Tensor]) -> Seed | None:
    """Masks of all attentions changed, as bools: True is seen."""
    every = attentions(subject)
    if not every:
        return None

    def edit(arguments: dict[str, Any]) -> None:
        mask = arguments.get("attention_mask")
        if not isinstance(mask, torch.Tensor) or mask.ndim != 4:
            return
        visible = change(mask if mask.dtype == torch.bool else mask > -1)
        least = torch.finfo(mask.dtype).min if mask.is_floating_point() else 0
        arguments["attention_mask"] = visible if mask.dtype == torch.bool else torch.where(visible, 0.0, least).to(mask)

    return Seed(paths(every), lambda: _all([lambda m=m: arguments_of(m, edit) for _, m in every]))  # type: ignore[misc]


@contextmanager
def _all(every: list[Callable[[], AbstractContextManager[None]]]) -> Iterator[None]:
    with ExitStack() as stack:
        for enter in every:
            stack.enter_context(enter())
        yield


@mistake
def padding_is_seen(subject: Subject) -> Seed | None:
    """Every row has the mask of the one without padding."""
    return _masks(subject, lambda visible: visible[-1:].expand_as(visible) if len(visible) > 1 else visible)


@mistake
def the_future_is_seen(subject: Subject) -> Seed | None:
    """Every position sees what the last one sees."""
    return _masks(subject, lambda visible: (visible | visible[..., -1:, :]).expand_as(visible))


@mistake
def the_window_is_off(subject: Subject) -> Seed | None:
    """A key that anybody sees is seen by all behind it."""

    def change(visible: torch.Tensor) -> torch.Tensor:
        behind = torch.ones(visible.shape[-2:], dtype=torch.bool).tril(visible.shape[-1] - visible.shape[-2])
        return visible | (visible.any(-2, keepdim=True) & behind)

    causal = not subject.model.config.is_encoder_decoder and len(subject.steps) > 1
    return _masks(subject, change) if causal else None


@mistake
def the_window_is_short(subject: Subject) -> Seed | None:
    """The farthest key is not seen, as by < for <=."""

    def change(visible: torch.Tensor) -> torch.Tensor:
        farthest = visible & (visible.cumsum(-1) == 1)
        return visible & ~(farthest & (visible.sum(-1, keepdim=True) > 3))

    return _masks(subject, change)
