"""RoPE scaling of a checkpoint, every number resolved as Hugging Face resolves it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from qwen3_golden import pb, refusals
from qwen3_reference.checkpoints.spec_configs import spec_scaling

refuse = refusals("use the checkpoint's own, complete config.json")
"""The refusal of a config.json."""

_LENGTH = "original_max_position_embeddings"
_PLAIN = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
_READ = {
    "default": (),
    "yarn": ("factor", _LENGTH, "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "llama3": ("factor", _LENGTH, "low_freq_factor", "high_freq_factor"),
}
"""The keys that Hugging Face reads, by rope_type."""


def stated_rope(stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """The RoPE section of a config.json: `rope_scaling` (the older name) goes before `rope_parameters`, as in HF."""
    section = stated.get("rope_scaling") or stated.get("rope_parameters") or {}
    return section if isinstance(section, Mapping) else {}


def rope_scaling(config: Any, stated: Mapping[str, Any], path: Path) -> pb.RopeScaling | None:
    """The scaling of an HF `config` read from `stated`, the content of `path`; None for plain RoPE.

    `ParityError` for another `rope_type` than default and those of the specification, for keys that HF would not read,
    for RoPE over a part of the head, for a missing `original_max_position_embeddings` (HF takes
    `max_position_embeddings`, which stretches nothing), and for numbers that are none or impossible.
    """
    config.standardize_rope_params()
    rope: Mapping[str, Any] = config.rope_parameters
    if rope.get("partial_rotary_factor", 1.0) not in (None, 1.0):
        raise refuse(path, "RoPE over a part of the head", "partial_rotary_factor 1", rope["partial_rotary_factor"])
    kind = rope.get("rope_type", "default")
    if kind not in tuple(_READ):
        raise refuse(path, "a RoPE scaling that is not supported", f"rope_type {' or '.join(_READ)}", repr(kind))
    numbers = _READ[kind]
    if unknown := sorted(set(rope) - {*_PLAIN, *numbers}):
        known = ", ".join((*_PLAIN, *numbers))
        raise refuse(path, f"keys that RoPE of type {kind} does not read", known, ", ".join(unknown))
    if kind == "default":
        return None
    if stated.get(_LENGTH, stated_rope(stated).get(_LENGTH)) is None:
        raise refuse(path, f"{kind} needs {_LENGTH}", "the positions of the pretraining", "absent or null")
    wrong = {name: rope[name] for name in numbers if name != "truncate" and not _is_number(rope.get(name))}
    if wrong:
        raise refuse(path, "RoPE scaling by what is no number", "numbers", wrong)
    try:
        if not rope["rope_theta"] > 1:
            raise ValueError(f"rope_theta {rope['rope_theta']} is not above 1")
        if kind != "yarn" and (missing := [name for name in numbers if rope.get(name) is None]):
            raise ValueError(f"{', '.join(missing)} must be stated")
        _, attention_factor = ROPE_INIT_FUNCTIONS[kind](config)
        resolved = _yarn(config, rope) if kind == "yarn" else {name: rope[name] for name in numbers}
        scaling = pb.RopeScaling(rope_type=kind, **(resolved | {"attention_factor": attention_factor}))
        spec_scaling(scaling)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise refuse(path, "impossible RoPE scaling", "numbers that stretch", error) from None
    return scaling


def _yarn(config: Any, rope: Mapping[str, Any]) -> dict[str, Any]:
    ratio = config.max_position_embeddings / rope[_LENGTH]
    return {
        "factor": ratio if rope["factor"] is None else rope["factor"],
        _LENGTH: rope[_LENGTH],
        "beta_fast": rope.get("beta_fast") or 32,
        "beta_slow": rope.get("beta_slow") or 1,
        "truncate": bool(rope.get("truncate", True)),
    }


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
