"""config.json of a Qwen3 or Qwen2 checkpoint -> the numbers of the network, as Hugging Face understands them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qwen3_golden import pb
from qwen3_reference.checkpoints.families import FAMILIES
from qwen3_reference.checkpoints.published import SAME_NAME
from qwen3_reference.checkpoints.rope_scaling import refuse, rope_scaling, stated_rope
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_reference.checkpoints.stored import read_config
from qwen3_reference.quiet import quiet

_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "rms_norm_eps",
)


def hf_config(directory: str | Path) -> Any:
    """HF's configuration of a checkpoint, an own copy at each call; `ParityError` for one that is incomplete.

    Sizes, eps and rope_theta must be stated: HF's defaults for them fit no published checkpoint.
    """
    path = Path(directory) / "config.json"
    stated = read_config(path.parent)
    kind = stated.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise refuse(path, "unknown model_type", " or ".join(FAMILIES), kind)
    missing = [name for name in _REQUIRED if stated.get(name) is None]
    theta = stated.get("rope_theta", stated_rope(stated).get("rope_theta"))
    if theta is None:
        missing.append("rope_theta")
    if FAMILIES[kind].states_head_dim and stated.get("head_dim") is None:
        missing.append("head_dim")
    if missing:
        raise refuse(path, "fields are missing", ", ".join(missing), "absent or null")
    if isinstance(theta, bool) or not isinstance(theta, int | float):  # Hugging Face takes it as it is
        raise refuse(path, "rope_theta is not a number", "a number", repr(theta))
    if stated.get("mlp_bias"):
        raise refuse(path, "biases in the MLP", "mlp_bias false: they have no taps", stated["mlp_bias"])
    try:
        with quiet():
            config = FAMILIES[kind].hf("Config").from_dict(stated)
    except Exception as error:  # HF's validation raises several classes of its own
        raise refuse(path, "Hugging Face refuses the configuration", "a valid configuration", error) from error
    rope_scaling(config, stated, path)  # refuses what has no place in the schema
    return config


def model_config(directory: str | Path, *, rotate_encoder_keys: bool = True) -> pb.ModelConfig:
    """The numbers of a checkpoint's network; `ParityError` when config.json is missing, broken or impossible."""
    path = Path(directory) / "config.json"
    hf: Any = hf_config(directory)
    family = FAMILIES[hf.model_type]
    attention_bias, attention_out_bias = family.biases_of(getattr(hf, "attention_bias", False))
    head_dim = getattr(hf, "head_dim", None) or hf.hidden_size // hf.num_attention_heads
    layer_types = getattr(hf, "layer_types", None) or ["full_attention"] * hf.num_hidden_layers
    sliding = "sliding_attention" in layer_types
    config = pb.ModelConfig(
        **{name: getattr(hf, name) for name in SAME_NAME if name != "rope_theta"},
        head_dim=head_dim,
        rope_theta=hf.rope_parameters["rope_theta"],
        attention_bias=attention_bias,
        attention_out_bias=attention_out_bias,
        use_qk_norm=family.use_qk_norm,
        layer_types=layer_types,
        sliding_window=hf.sliding_window if sliding and hf.sliding_window else 0,
        rotate_encoder_keys=rotate_encoder_keys,
        rope_scaling=rope_scaling(hf, read_config(path.parent), path),
    )
    try:
        spec_config(config)
    except (ValueError, KeyError) as error:
        raise refuse(path, "impossible configuration", "a network", error) from None
    return config
