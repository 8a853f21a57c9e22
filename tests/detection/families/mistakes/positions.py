"""Mistakes of positions: RoPE and learned embeddings."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import torch
from torch import nn

from detection.families.mistakes.attention import attentions, paths
from detection.families.mistakes.seed import Seed, mistake
from detection.families.patch import arguments_of, changed, filled
from detection.families.subject import Subject

_Arguments = dict[str, Any]
_TURNED = ("q", "k", "xq", "xk", "x")


def _rotations(subject: Subject) -> list[tuple[Any, str]]:
    """Modules of source and the functions in them that turn query and key."""
    sources = {sys.modules[type(module).__module__] for _, module in attentions(subject)}
    every = [
        (source, name)
        for source in sorted(sources, key=str)
        for name in vars(source)
        if name.lstrip("_").startswith("apply_") and "rotary" in name and "vision" not in name
    ]
    return [(source, name) for source, name in every if not name.startswith("_")] or every


def _turned(subject: Subject, change: Callable[[Callable[..., Any], _Arguments], Any]) -> Seed | None:
    every = _rotations(subject)
    if not every:
        return None

    @contextmanager
    def on() -> Iterator[None]:
        with ExitStack() as stack:
            for source, name in every:
                inner = getattr(source, name)
                signature = inspect.signature(inner)

                def around(*args: Any, inner: Any = inner, signature: Any = signature, **kwargs: Any) -> Any:
                    return change(inner, dict(signature.bind(*args, **kwargs).arguments))

                stack.enter_context(changed(source, name, around))
            yield

    return Seed(paths(attentions(subject)), on)


@mistake
def rope_turns_back(subject: Subject) -> Seed | None:
    """The sign of the sine, in the queries alone where they are turned with the keys: relative positions, mirrored."""

    def change(inner: Callable[..., Any], arguments: _Arguments) -> Any:
        if "sin" in arguments:
            arguments["sin"] = -arguments["sin"]
        elif "freqs_cis" in arguments:
            arguments["freqs_cis"] = arguments["freqs_cis"].conj()
        return inner(**arguments)

    return _turned(subject, change)


def _dealt(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(*x.shape[:-1], 2, -1).transpose(-1, -2).flatten(-2)


def _gathered(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(*x.shape[:-1], -1, 2).transpose(-1, -2).flatten(-2)


@mistake
def rope_pairs_other_channels(subject: Subject) -> Seed | None:
    """Neighbouring channels in pairs for halves, or halves for neighbours."""

    def change(inner: Callable[..., Any], arguments: _Arguments) -> Any:
        for name in _TURNED:
            if isinstance(arguments.get(name), torch.Tensor):
                arguments[name] = _gathered(arguments[name])
        results = inner(**arguments)
        return tuple(map(_dealt, results)) if isinstance(results, tuple) else _dealt(results)

    return _turned(subject, change)


@mistake
def keys_are_not_turned(subject: Subject) -> Seed | None:
    """RoPE of the queries alone."""

    calls = count()

    def change(inner: Callable[..., Any], arguments: _Arguments) -> Any:
        results = inner(**arguments)
        if not isinstance(results, tuple):  # query and key each by itself, in this order
            return arguments["x"] if next(calls) % 2 and "x" in arguments else results
        key = arguments.get("k", arguments.get("xk"))
        return results if key is None else (results[0], key)

    return _turned(subject, change)


def _rotary(subject: Subject) -> list[tuple[str, nn.Module]]:
    return [(path, module) for path, module in subject.modules() if "Rotary" in type(module).__name__]


@mistake
def rope_theta(subject: Subject) -> Seed | None:
    """Angles of another base."""
    every = [
        (path, buffer)
        for path, module in _rotary(subject)
        for name, buffer in module.named_buffers(recurse=False)
        if name.endswith("inv_freq") and not name.endswith("original_inv_freq") and bool((buffer > 0).all())
    ]
    if not every:
        return None

    @contextmanager
    def on() -> Iterator[None]:
        with ExitStack() as stack:
            for _, buffer in every:
                stack.enter_context(filled(buffer, buffer**1.1))
            yield

    return Seed(tuple(dict.fromkeys(path for path, _ in every)), on)


def _placed(subject: Subject, change: Callable[[torch.Tensor], torch.Tensor]) -> Seed | None:
    every = _rotary(subject)
    if not every:
        return None

    def edit(arguments: _Arguments) -> None:
        if isinstance(arguments.get("position_ids"), torch.Tensor):
            arguments["position_ids"] = change(arguments["position_ids"])

    @contextmanager
    def on() -> Iterator[None]:
        with ExitStack() as stack:
            for _, module in every:
                stack.enter_context(arguments_of(module, edit))
            yield

    return Seed((*paths(every), *paths(attentions(subject))), on)


@mistake
def positions_begin_again_in_each_step(subject: Subject) -> Seed | None:
    """Every forward counts from 0."""
    return _placed(subject, lambda positions: positions - positions[..., :1]) if len(subject.steps) > 1 else None


@mistake
def positions_are_doubled(subject: Subject) -> Seed | None:
    """Every second position left free."""
    return _placed(subject, lambda positions: 2 * positions)


@mistake
def learned_positions_from_another_row(subject: Subject) -> Seed | None:
    """A table of positions read one row late."""
    for path, module in subject.modules():
        if isinstance(module, nn.Embedding) and ("pos" in path or path.endswith("wpe")):
            return Seed((path,), lambda w=module.weight: filled(w, w.roll(-1, 0)))  # type: ignore[misc]
    return None
