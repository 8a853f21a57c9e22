"""onnxruntime-genai's Qwen3 as a candidate, by its logits: its own builder and fused kernels, its cache in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime_genai as engine
from onnxruntime_genai.models.builder import create_model, parse_extra_options
from shared import causal_runner

PACKAGE, HAS = "onnxruntime-genai", {"qk_norm"}


def lacks(case: Any) -> list[str]:
    """What its fused attention refuses."""
    return ["head_dim % 8"] if case.config.head_dim % 8 else []


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner on the decoder's checkpoint, built as ONNX in float32."""
    with TemporaryDirectory() as folder:
        where = ("", str(checkpoints["decoder"]), folder, "fp32", "cpu", folder)
        create_model(*where, **parse_extra_options(*where, []))
        model, generator = engine.Model(folder), None

    def forward(ids: Any, now: slice) -> Any:
        nonlocal generator
        if now.start == 0:
            settings = engine.GeneratorParams(model)
            settings.set_search_options(batch_size=len(ids), max_length=sum(case.steps) + 1)
            generator = engine.Generator(model, settings)
        generator.append_tokens(np.ascontiguousarray(ids[:, now], np.int32))
        return generator.get_output("logits")

    return causal_runner("onnxruntime-genai", [], forward, ["logits"])
