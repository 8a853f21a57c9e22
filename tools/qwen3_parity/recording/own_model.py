"""Hugging Face's own model as the implementation under test: what another attention or another machine makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from qwen3_golden import ParityError, pb
from qwen3_reference.graph.load import load
from qwen3_reference.graph.pooled import POOL, around

_IMPLEMENTATIONS = {"flex": "flex_attention"}


def huggingface(backend: str, dtype: torch.dtype) -> Callable[[pb.Case, Mapping[str, Path]], Any]:
    """A factory of a case's own model under this attention; `ParityError` where the model does not have it."""

    def build(case: pb.Case, directories: Mapping[str, Path]) -> Any:
        if "model" not in directories:
            raise ParityError(
                case.name,
                "the case has no checkpoint that Hugging Face's own model could be loaded from",
                expected="a golden that was captured from a folder",
                got="none",
                next_step="give the --impl whose factory builds the model",
            )
        attributes = {attribute.key: attribute.value for attribute in case.attributes}
        model = load(directories["model"], dtype, bare=POOL in attributes)
        try:
            model.set_attn_implementation(_IMPLEMENTATIONS.get(backend, backend))
        except (ValueError, ImportError) as error:
            raise ParityError(
                case.name,
                f"this model does not run under the attention {backend!a}",
                expected="an implementation that its class supports",
                got=str(error).splitlines()[0],
                next_step="choose another --backend",
            ) from None
        return around(model, attributes)

    return build
