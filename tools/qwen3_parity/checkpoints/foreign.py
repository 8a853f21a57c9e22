"""Checkpoints that hold another network, or hold it in another format: called what they are before anything is read."""

from __future__ import annotations

from pathlib import Path

from qwen3_golden import ParityError
from qwen3_reference.checkpoints.classic_configs import MODEL_TYPE
from qwen3_reference.checkpoints.stored import read_config

_DENSE = ("qwen3", "qwen2")
_NAMES = {"llama": "Llama", "mistral": "Mistral", "gemma": "Gemma", "qwen2_moe": "Qwen2-MoE", "qwen3_moe": "Qwen3-MoE"}
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_CONVERTED = "use the Hugging Face checkpoint that the GGUF file was converted from"
_SHOWN = 60
_WANTED = (
    "a dense Qwen3 or Qwen2 checkpoint: config.json (model_type qwen3 or qwen2) and safetensors, or an exported one"
)


def refuse_foreign(path: Path) -> None:
    """Raise `ParityError` for a GGUF file, a folder of them, any other file, and a checkpoint of another network.

    What is not there, and a config.json that cannot be read, are left to whoever reads them.
    """
    if path.is_file():
        if path.suffix.lower() == ".gguf":
            raise _refused(path, "a GGUF file", path.name, _CONVERTED)
        raise _refused(path, "a file, not a checkpoint's directory", path.name, "give the directory that it is in")
    if not path.is_dir():
        return
    if not (path / "config.json").is_file():
        if files := sorted(one.name for one in path.iterdir() if one.suffix.lower() == ".gguf"):
            raise _refused(path, "a folder of GGUF files", ", ".join(files[:3]), _CONVERTED)
        return
    try:
        stated = read_config(path)
    except ParityError:
        return
    kind = stated.get("model_type")
    if not isinstance(kind, str) or kind in (*_DENSE, MODEL_TYPE):
        return
    shown = ascii(kind)[1:-1][:_SHOWN]
    what = f"a {_NAMES.get(kind, 'foreign')} checkpoint (model_type {shown})"
    if kind.endswith("_moe") or any(stated.get(key) for key in _EXPERTS):
        next_step = "use a dense model of the family: routing to experts has no taps"
        raise _refused(path, f"{what}, a mixture of experts", f"model_type {shown}", next_step)
    raise _refused(path, what, f"model_type {shown}", "use a Qwen3 or Qwen2 checkpoint")


def _refused(path: Path, what: str, got: str, next_step: str) -> ParityError:
    return ParityError(path, f"this is {what}", expected=_WANTED, got=got, next_step=next_step)
