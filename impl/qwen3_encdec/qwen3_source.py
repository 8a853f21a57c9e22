"""Reading a Qwen3 or Qwen2 `config.json`: which of its fields mean what here, and what may not be missing."""

from collections.abc import Mapping
from typing import Any

from .rope_scaling import ORIGINAL_LENGTH, resolve_scaling

_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "rms_norm_eps",
)
_OPTIONAL = {
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "initializer_range": 0.02,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}


def resolve_rope_parameters(source: Mapping[str, Any], default_theta: float | None = None) -> dict[str, Any]:
    """`{"rope_type": "default", "rope_theta": …}` from either layout of a config, or yarn with every number resolved.

    `rope_theta` stands at the top level or inside `rope_parameters` (formerly `rope_scaling`), where the scaling is.
    Raises `ValueError` when it is missing and there is no `default_theta`, when two places disagree, and for every
    scaling but yarn.
    """
    if source.get("partial_rotary_factor") not in (None, 1.0):
        raise ValueError(f"partial_rotary_factor = {source['partial_rotary_factor']!r} is not supported; expected 1.0")
    thetas: dict[str, Any] = {}
    if source.get("rope_theta") is not None:
        thetas["rope_theta"] = source["rope_theta"]
    scalings = {}
    for field in ("rope_parameters", "rope_scaling"):
        parameters = source.get(field)
        if parameters is None:
            continue
        if not isinstance(parameters, Mapping):
            raise ValueError(f"{field} = {parameters!r} must be a dictionary")
        parameters = _with_length(parameters, field, source.get(ORIGINAL_LENGTH))
        scalings[field] = resolve_scaling(parameters, field, source.get("max_position_embeddings"))
        if parameters.get("rope_theta") is not None:
            thetas[f"{field}['rope_theta']"] = parameters["rope_theta"]
    _check_thetas(thetas)
    theta = next(iter(thetas.values()), default_theta)
    if theta is None:
        raise ValueError("rope_theta is missing, at the top level and in rope_parameters; it has no honest default")
    if len(set(scalings.values())) > 1:
        raise ValueError("the scalings disagree: " + ", ".join(f"{name} = {value}" for name, value in scalings.items()))
    scaling = next(iter(scalings.values()), None)
    if scaling is None:
        return {"rope_type": "default", "rope_theta": theta}
    if not theta > 1:
        raise ValueError(f"rope_theta = {theta!r} must be above 1 under yarn, which counts in its powers")
    return {"rope_type": "yarn", "rope_theta": theta} | scaling._asdict()


def _with_length(parameters: Mapping[str, Any], field: str, length: Any) -> Mapping[str, Any]:
    """A yarn section with the original length that the top level states, where HF looks for it too."""
    if length is None or "yarn" not in (parameters.get("rope_type"), parameters.get("type")):
        return parameters
    if parameters.get(ORIGINAL_LENGTH) not in (None, length):
        raise ValueError(
            f"{ORIGINAL_LENGTH} = {length!r} and {field}[{ORIGINAL_LENGTH!r}] = {parameters[ORIGINAL_LENGTH]!r} "
            "disagree"
        )
    return {**parameters, ORIGINAL_LENGTH: length}


def _check_thetas(thetas: Mapping[str, Any]) -> None:
    for name, value in thetas.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"{name} = {value!r} must be a positive number")
    if len({float(value) for value in thetas.values()}) > 1:
        raise ValueError("the bases disagree: " + ", ".join(f"{name} = {value}" for name, value in thetas.items()))


def target_fields(source: Mapping[str, Any], num_sentinel_tokens: int) -> dict[str, Any]:
    """Keyword arguments of `Qwen3EncoderDecoderConfig` from the dictionary of a Qwen3 or Qwen2 config.

    Raises `ValueError` naming the fields that are missing or not understood.
    """
    model_type = source.get("model_type")
    if model_type not in ("qwen3", "qwen2"):
        raise ValueError(f"model_type = {model_type!r} is not supported; expected 'qwen3' or 'qwen2'")
    required = _REQUIRED if model_type == "qwen2" else (*_REQUIRED, "head_dim")
    if missing := [name for name in required if source.get(name) is None]:
        raise ValueError(f"the {model_type} config lacks {', '.join(missing)}; they have no honest default")
    fields: dict[str, Any] = {name: source[name] for name in _REQUIRED}
    fields |= {name: source.get(name, default) for name, default in _OPTIONAL.items()}
    fields["head_dim"] = source.get("head_dim") or _qwen2_head_dim(source)
    fields["vocab_size"] = source["vocab_size"] + num_sentinel_tokens
    fields["num_sentinel_tokens"] = num_sentinel_tokens
    fields["rope_parameters"] = resolve_rope_parameters(source)
    fields["decoder_start_token_id"] = source.get("decoder_start_token_id", source.get("bos_token_id"))
    # HF: Qwen3's switch covers q, k, v and o; Qwen2 always has a bias on q, k, v, never on o, and no QK-norm.
    bias = bool(source.get("attention_bias", False))
    fields["attention_bias"] = True if model_type == "qwen2" else bias
    fields["attention_out_bias"] = False if model_type == "qwen2" else bias
    fields["use_qk_norm"] = model_type == "qwen3"
    return fields | _window_fields(source)


def _qwen2_head_dim(source: Mapping[str, Any]) -> int:
    hidden, heads = source["hidden_size"], source["num_attention_heads"]
    if hidden % heads:
        raise ValueError(
            f"hidden_size = {hidden} is not a multiple of num_attention_heads = {heads} and head_dim is missing"
        )
    return int(hidden // heads)


def _window_fields(source: Mapping[str, Any]) -> dict[str, Any]:
    # As HF: the window counts only with use_sliding_window, and then from layer max_window_layers on.
    window = source.get("sliding_window") if source.get("use_sliding_window") else None
    layer_types = source.get("layer_types")
    if layer_types is None:
        first = source.get("max_window_layers", 28)
        layer_types = [
            "sliding_attention" if window is not None and layer >= first else "full_attention"
            for layer in range(source["num_hidden_layers"])
        ]
    return {"layer_types": list(layer_types), "sliding_window": window}
