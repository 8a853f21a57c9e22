"""OpenVINO as a candidate, by its logits: Hugging Face's Qwen3 as its converter reads it, on its own CPU kernels.

Each step runs the rows again whole, without a cache.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import torch
from shared import Inputs, runner
from transformers import AutoModelForCausalLM

PACKAGE, HAS = "openvino", {"qk_norm", "window", "yarn", "padding", "positions", "inputs_embeds", "mask_4d"}


class Logits(torch.nn.Module):
    """The model as a function of three tensors, which the converter traces."""

    def __init__(self, model: Any, kind: str) -> None:
        super().__init__()
        self.model, self.kind = model, kind

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        given = {self.kind: tokens, "attention_mask": {"full_attention": mask[0], "sliding_attention": mask[1]}}
        return self.model(**given, position_ids=positions, use_cache=False).logits


def masks(inputs: Inputs, window: int, stop: int) -> np.ndarray[Any, Any]:
    """What is added to scores, without and with the window, `[2, batch, 1, query, key]`."""
    order = np.arange(stop)
    visible = np.tril(np.ones((stop, stop), bool)) & inputs["input.decoder_attention_mask"][:, None, :stop].astype(bool)
    if "input.decoder_mask" in inputs:
        visible = inputs["input.decoder_mask"][:, :stop, :stop].astype(bool)
    near = visible & (order[:, None] - order < (window or stop))
    return np.where(np.stack([visible, near])[:, :, None], 0, np.finfo(np.float32).min).astype(np.float32)


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner on the decoder's checkpoint, in float32 also where a processor has narrower types."""
    model = AutoModelForCausalLM.from_pretrained(
        checkpoints["decoder"], attn_implementation="sdpa", dtype=torch.float32, local_files_only=True
    ).eval()
    compiled: Any = None

    def forward(inputs: Inputs, now: slice) -> Any:
        nonlocal compiled
        kind = "inputs_embeds" if "input.decoder_inputs_embeds" in inputs else "input_ids"
        tokens, positions = (inputs[f"input.decoder_{name}"][:, : now.stop] for name in (kind, "position_ids"))
        given = [tokens, masks(inputs, case.config.sliding_window, now.stop), positions]
        if compiled is None:
            examples = tuple(torch.from_numpy(np.ascontiguousarray(one)) for one in given)
            with warnings.catch_warnings(action="ignore"):  # its converter traces, as torch will not for ever
                converted = openvino.convert_model(Logits(model, kind), example_input=examples)
            compiled = openvino.compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return next(iter(compiled([np.ascontiguousarray(one) for one in given]).values()))

    return runner("openvino", [], forward, ["logits"])
