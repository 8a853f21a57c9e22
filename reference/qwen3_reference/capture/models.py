"""Hugging Face's models of a case, loaded with their own configurations and with attention that records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from qwen3_reference.capture.recorded_attention import recording_attention
from qwen3_reference.checkpoints.configs import hf_config
from qwen3_reference.checkpoints.families import FAMILIES
from qwen3_reference.quiet import quiet

RECORDING = {kind: f"recording_{kind}_eager" for kind in FAMILIES}
"""The names under which HF's own eager attention, recorded, is registered, by model_type."""

for kind, family in FAMILIES.items():
    recording_attention(RECORDING[kind], family.eager_attention())


@dataclass(frozen=True)
class Reference:
    """The models of a case: HF's base model as the encoder and its causal LM as the decoder, either may be absent."""

    encoder: Any
    decoder: Any
    rotate_encoder_keys: bool = True


Loader = Callable[[Any, Any, Path, torch.dtype, str], Any]
"""`load(model_class, config, directory, dtype, attention)` -> the model with its weights, in eval mode."""


def load_in_memory(
    model_class: Any, config: Any, directory: Path, dtype: torch.dtype, attention: str, **more: Any
) -> Any:
    """The ordinary `Loader`: Hugging Face's `from_pretrained`, also given `more`; the whole model in memory."""
    with quiet():
        model = model_class.from_pretrained(
            str(directory), config=config, dtype=dtype, attn_implementation=attention, local_files_only=True, **more
        )
    return model.eval()


def _load(directory: str | Path, model: str, dtype: torch.dtype, attention: str | None, load: Loader) -> Any:
    config = hf_config(directory)
    if model == "Model":
        config.is_causal = False  # on an own copy: shared with the decoder it would make that bidirectional too
    kind = config.model_type
    return load(FAMILIES[kind].hf(model), config, Path(directory), dtype, attention or RECORDING[kind])


def load_reference(
    encoder_directory: str | Path | None,
    decoder_directory: str | Path | None,
    *,
    dtype: torch.dtype = torch.float32,
    rotate_encoder_keys: bool = True,
    attention: str | None = None,
    load: Loader = load_in_memory,
) -> Reference:
    """HF's models from checkpoint directories; `attention` replaces the recorded eager attention, for tests.

    `load` is how the weights come into a model: all in memory, streamed from the disk, or shared by processes.
    """
    encoder = None if encoder_directory is None else _load(encoder_directory, "Model", dtype, attention, load)
    decoder = None if decoder_directory is None else _load(decoder_directory, "ForCausalLM", dtype, attention, load)
    return Reference(encoder, decoder, rotate_encoder_keys)
