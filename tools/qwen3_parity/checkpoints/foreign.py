"""Checkpoints that hold another network, or hold it in another format: called what they are before anything is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from qwen3_golden import ParityError, is_exported
from qwen3_reference.checkpoints.classic_configs import MODEL_TYPE
from qwen3_reference.checkpoints.families import FAMILIES
from qwen3_reference.checkpoints.stored import read_config

_NAMES = {
    "deepseek_v3": "DeepSeek-V3",
    "gemma": "Gemma",
    "gemma2": "Gemma 2",
    "gemma3": "Gemma 3",
    "gemma3_text": "Gemma 3",
    "gpt2": "GPT-2",
    "gpt_oss": "gpt-oss",
    "llama": "Llama",
    "mistral": "Mistral",
    "mixtral": "Mixtral",
    "phi3": "Phi-3",
    "qwen2_moe": "Qwen2-MoE",
    "qwen3_moe": "Qwen3-MoE",
    "qwen3_next": "Qwen3-Next",
    "qwen3_vl": "Qwen3-VL",
    "t5": "T5",
}
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_CONVERTED = "use the Hugging Face checkpoint that it was converted from"
_FORMATS: Mapping[str, tuple[Collection[str], str]] = {
    "GGUF files": ((".gguf",), _CONVERTED),
    "PyTorch's pickles": (
        (".bin", ".pt", ".pth", ".ckpt", ".pkl"),
        "nothing is ever unpickled: save the model again with save_pretrained, which writes model.safetensors, or its "
        "parts and model.safetensors.index.json",
    ),
    "ONNX files": ((".onnx",), _CONVERTED),
    "NumPy arrays": ((".npz", ".npy"), _CONVERTED),
}
"""What weights may be instead of safetensors, by the ends of their files' names, and what to do."""
_SHOWN = 60


def refuse_foreign(path: Path, kinds: Collection[str] | None = tuple(FAMILIES)) -> None:
    """Raise `ParityError` for weights in another format, for any file, and for a checkpoint of another network.

    `kinds` are the model_types that are wanted, None: every one. What is not there, and a config.json that cannot be
    read, are left to whoever reads them.
    """

    def refused(what: str, got: str, next_step: str) -> ParityError:
        return ParityError(path, f"this is {what}", expected=wanted, got=got, next_step=next_step)

    families = " or ".join(FAMILIES[kind].prefix for kind in kinds or ())
    wanted = "a Hugging Face checkpoint: config.json and safetensors"
    if kinds is not None:
        config = f"config.json (model_type {' or '.join(kinds)})"
        wanted = f"a dense {families} checkpoint: {config} and safetensors, or an exported one"
    if path.is_file():
        what = "a GGUF file" if path.suffix.lower() == ".gguf" else "a file, not a checkpoint's directory"
        raise refused(what, path.name, _CONVERTED if "GGUF" in what else "give the directory that it is in")
    if not path.is_dir() or is_exported(path):
        return
    names = sorted(one.name for one in path.iterdir())
    weights = [name for name in names if name.endswith((".safetensors", ".safetensors.index.json"))]
    for format_, (ends, next_step) in _FORMATS.items():
        files = [name for name in names if name.lower().endswith(tuple(ends))]
        if files and not weights:
            raise refused(f"a folder of {format_}", ", ".join(files[:3]), next_step)
    if "config.json" not in names:
        if weights:
            got, next_step = ", ".join(weights[:3]), "put the checkpoint's own config.json beside the weights"
            raise refused("a folder of weights without config.json", got, next_step)
        return
    try:
        stated = read_config(path)
    except ParityError:
        return
    kind = stated.get("model_type")
    if not isinstance(kind, str) or kind == MODEL_TYPE:
        return
    shown = ascii(kind)[1:-1][:_SHOWN]
    if kinds is not None and kind not in kinds:
        name = f"a {_NAMES[kind]} checkpoint" if kind in _NAMES else "another network's checkpoint"
        what = f"{name} (model_type {shown})"
        if kind.endswith("_moe") or any(stated.get(key) for key in _EXPERTS):
            next_step = "use a dense model of the family: routing to experts has no taps"
            raise refused(f"{what}, a mixture of experts, which is not supported", f"model_type {shown}", next_step)
        raise refused(f"{what}, which is not supported", f"model_type {shown}", f"use a {families} checkpoint")
    if isinstance(quantised := stated.get("quantization_config"), dict):
        method = ascii(str(quantised.get("quant_method", "unknown")))[1:-1][:_SHOWN]
        next_step = "use the checkpoint that it was quantised from; check says how predictions of this one differ"
        raise refused(f"a quantised checkpoint (quant_method {method}), which is not supported", method, next_step)
