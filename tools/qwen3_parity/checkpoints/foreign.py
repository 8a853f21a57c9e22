"""Checkpoints that hold another network, or hold it in another format: called what they are before anything is read."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from qwen3_golden import ParityError
from qwen3_reference.checkpoints.classic_configs import MODEL_TYPE
from qwen3_reference.checkpoints.families import FAMILIES
from qwen3_reference.checkpoints.stored import read_config

_NAMES = {"llama": "Llama", "mistral": "Mistral", "gemma": "Gemma", "qwen2_moe": "Qwen2-MoE", "qwen3_moe": "Qwen3-MoE"}
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_CONVERTED = "use the Hugging Face checkpoint that the GGUF file was converted from"
_SHOWN = 60


def refuse_foreign(path: Path, kinds: Collection[str] = tuple(FAMILIES)) -> None:
    """Raise `ParityError` for a GGUF file, a folder of them, any other file, and a checkpoint of another network.

    `kinds` are the model_types that are wanted. What is not there, and a config.json that cannot be
    read, are left to whoever reads them.
    """

    def refused(what: str, got: str, next_step: str) -> ParityError:
        return ParityError(path, f"this is {what}", expected=wanted, got=got, next_step=next_step)

    families = " or ".join(FAMILIES[kind].prefix for kind in kinds)
    config = f"config.json (model_type {' or '.join(kinds)})"
    wanted = f"a dense {families} checkpoint: {config} and safetensors, or an exported one"
    if path.is_file():
        if path.suffix.lower() == ".gguf":
            raise refused("a GGUF file", path.name, _CONVERTED)
        raise refused("a file, not a checkpoint's directory", path.name, "give the directory that it is in")
    if not path.is_dir():
        return
    if not (path / "config.json").is_file():
        if files := sorted(one.name for one in path.iterdir() if one.suffix.lower() == ".gguf"):
            raise refused("a folder of GGUF files", ", ".join(files[:3]), _CONVERTED)
        return
    try:
        stated = read_config(path)
    except ParityError:
        return
    kind = stated.get("model_type")
    if not isinstance(kind, str) or kind in (*kinds, MODEL_TYPE):
        return
    shown = ascii(kind)[1:-1][:_SHOWN]
    what = f"a {_NAMES.get(kind, 'foreign')} checkpoint (model_type {shown})"
    if kind.endswith("_moe") or any(stated.get(key) for key in _EXPERTS):
        next_step = "use a dense model of the family: routing to experts has no taps"
        raise refused(f"{what}, a mixture of experts", f"model_type {shown}", next_step)
    raise refused(what, f"model_type {shown}", f"use a {families} checkpoint")
