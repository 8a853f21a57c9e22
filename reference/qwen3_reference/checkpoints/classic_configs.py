"""config.json of a classic encoder -> the numbers of its network; the format is this project's own.

There is no directory format that torch and Hugging Face share for it: golden/README.md documents this one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qwen3_golden import ParityError, pb
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_reference.checkpoints.stored import read_config

MODEL_TYPE = "transformer_encoder"
_SIZES = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    "max_position_embeddings",
)
_SWITCHES = ("norm_first", "scale_embeddings", "starts_with_hidden_states")
_FIELDS = {*_SIZES, *_SWITCHES, "model_type", "hidden_act", "layer_norm_eps"}


def is_classic(directory: str | Path) -> bool:
    """Whether a checkpoint directory is a classic encoder's."""
    return read_config(Path(directory)).get("model_type") == MODEL_TYPE


def classic_config(directory: str | Path) -> pb.ModelConfig:
    """The numbers of a checkpoint's network; `ParityError` when config.json is missing, incomplete or impossible."""
    path = Path(directory) / "config.json"
    stated = read_config(path.parent)

    def refuse(rule: str, expected: object, got: object) -> ParityError:
        return ParityError(
            path, rule, expected=expected, got=got, next_step="qwen3-parity show golden/README.md: The classic encoder"
        )

    if stated.get("model_type") != MODEL_TYPE:
        raise refuse("unknown model_type", MODEL_TYPE, stated.get("model_type"))
    if missing := sorted(_FIELDS - stated.keys()):
        raise refuse("fields are missing", ", ".join(missing), "absent")
    if strange := sorted(stated.keys() - _FIELDS):
        raise refuse("fields that nothing reads", "those of the format", ", ".join(strange))
    for name in _SIZES:
        value = stated[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise refuse(f"{name} is not a size", "a whole number", repr(value))
    for name in _SWITCHES:
        if not isinstance(stated[name], bool):
            raise refuse(f"{name} is not a switch", "true or false", repr(stated[name]))
    config = _message(stated)
    try:
        spec_config(config)
    except (ValueError, KeyError, ZeroDivisionError) as error:
        raise refuse("impossible configuration", "a network", error) from None
    return config


def _message(stated: dict[str, Any]) -> pb.ModelConfig:
    heads = stated["num_attention_heads"]
    return pb.ModelConfig(
        model_type=MODEL_TYPE,
        **{name: stated[name] for name in _SIZES},
        num_key_value_heads=heads,
        head_dim=stated["hidden_size"] // max(heads, 1),
        hidden_act=stated["hidden_act"],
        attention_bias=True,
        attention_out_bias=True,
        classic_encoder=pb.ClassicEncoder(
            **{name: stated[name] for name in _SWITCHES}, layer_norm_eps=stated["layer_norm_eps"]
        ),
    )
