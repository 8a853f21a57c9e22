"""What a command runs on a case: somebody's implementation, or ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qwen3_golden import Recording, pb
from qwen3_parity.recording.record import load_factory
from qwen3_reference.versions import refuse_unsupported


def factory_of(golden: Recording, impl: str | None, backend: str = "eager") -> Callable[..., Any]:
    """The factory of `impl`; without it ours for the case: a network, a tokenizer, or Hugging Face's own model.

    Raises `ParityError` as `load_factory`, and where the libraries are too old for ours.
    """
    if impl:
        return load_factory(impl)
    refuse_unsupported()
    if golden.case.mode == pb.TOKENIZATION:
        from qwen3_parity.text.ours import ours

        return ours
    from qwen3_parity.recording.ours.network import factory, golden_dtype

    if golden.case.mode == pb.GRAPH:
        from qwen3_parity.recording.own_model import huggingface

        return huggingface(backend, golden_dtype(golden))
    return factory(backend, golden_dtype(golden))
