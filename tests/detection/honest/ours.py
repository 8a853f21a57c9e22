"""Our implementation with some of its code exchanged while it runs, as a factory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from detection.honest.variation import Build
from qwen3_golden import Array, pattern_of, pb, table
from qwen3_parity.recording.ours.network import EncoderDecoder, encoder_decoder
from qwen3_parity.recording.record import Factory, Tap, Value

Patch = tuple[object, str, object]
"""An owner, the name of one of its attributes, and what stands there while the model runs."""
Change = Callable[[EncoderDecoder], Iterable[Patch]]
"""Changes a freshly loaded model, and says what else is exchanged while it runs."""
See = Callable[[pb.Case, str, int, Any], Iterable[tuple[str, Any]]]
"""`see(case, name, step, value)`: what a recorded value is in the contract's layout, under which names."""


def nothing(_runner: EncoderDecoder) -> tuple[Patch, ...]:
    """The model as it is."""
    return ()


def as_is(_case: pb.Case, name: str, _step: int, value: Value) -> Iterable[tuple[str, Any]]:
    """The value as the model has it."""
    return ((name, value),)


@dataclass(frozen=True)
class Changed:
    """A runner (see `record.Runner`) whose model runs with exchanged parts."""

    inner: EncoderDecoder
    patches: tuple[Patch, ...]
    see: See
    around: Callable[[], AbstractContextManager[object]]
    run: pb.Run
    parameters: Mapping[str, torch.Tensor]
    producer: str = "qwen3_encdec"

    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, is_wanted: Callable[[str], bool]) -> None:
        """Run the case."""

        def observe(name: str, step: int, value: Value) -> None:
            for known, laid_out in self.see(case, name, step, value):
                if pattern_of(known) in self.run.materialised:
                    tap(known, step, laid_out)

        with ExitStack() as stack:
            stack.enter_context(self.around())
            for owner, name, value in self.patches:
                stack.enter_context(patch.object(owner, name, value))
            self.inner(case, inputs, observe, is_wanted)


def ours(
    change: Change = nothing,
    *,
    see: See = as_is,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
    backend: str = "eager",
    run: Mapping[str, Any] | None = None,
    shows: Callable[[pb.Tap], bool] = lambda _row: True,
) -> Build:
    """Our model with a change; parameters are those that were loaded, before it.

    `run` overrides fields of the recording's `Run` (arithmetic, backend); `shows` says which taps are still delivered.
    """

    def build(dtype: torch.dtype) -> Factory:
        def factory(case: pb.Case, checkpoints: Mapping[str, Path]) -> Changed:
            inner = encoder_decoder(case, checkpoints, backend=backend, dtype=dtype)
            assert isinstance(inner, EncoderDecoder)
            loaded = {name: parameter.detach() for name, parameter in inner.parameters.items()}
            patches = tuple(change(inner))
            patterns = [row.pattern for row in table() if row.pattern in set(inner.run.materialised) and shows(row)]
            stated = {"arithmetic": inner.run.arithmetic, "backend": inner.run.backend} | dict(run or {})
            return Changed(inner, patches, see, around, pb.Run(materialised=patterns, **stated), loaded)

        return factory

    return build
