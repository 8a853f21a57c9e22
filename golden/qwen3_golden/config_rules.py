"""What holds of the network's numbers in a recording: beyond them no network was ever built, and readers would fall."""

from __future__ import annotations

import math
from collections.abc import Iterator

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError

_SIZES = {
    "hidden_size": (1, 1 << 20),
    "intermediate_size": (1, 1 << 22),
    "num_hidden_layers": (1, 1024),
    "num_attention_heads": (1, 1 << 14),
    "num_key_value_heads": (1, 1 << 14),
    "head_dim": (1, 1 << 16),
    "vocab_size": (0, 1 << 24),  # a classic encoder may start with hidden states
}
_ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh", "relu")
_LAYER_TYPES = ("full_attention", "sliding_attention")


def check_config(where: object, config: pb.ModelConfig) -> None:
    """The numbers are those of a network that can be, or `ParityError` for the first field that is not."""
    for name, expected, got in _impossible(config):
        raise ParityError(
            where,
            f"case.config.{name}: no network has it",
            expected=expected,
            got=got,
            next_step="copy case.config from the golden, or correct what wrote it",
        )


def _impossible(config: pb.ModelConfig) -> Iterator[tuple[str, object, object]]:
    """Field, what was expected, what it is."""
    for name, (least, most) in _SIZES.items():
        value = getattr(config, name)
        if not least <= value <= most:
            yield name, f"{least} to {most}", value
    heads, shared, classic = config.num_attention_heads, config.num_key_value_heads, config.HasField("classic_encoder")
    if heads % shared:
        yield "num_key_value_heads", f"a divisor of num_attention_heads, {heads}", shared
    if config.head_dim % 2 and not classic:
        yield "head_dim", "an even number: RoPE rotates pairs of channels", config.head_dim
    for name in () if classic else ("rms_norm_eps", "rope_theta"):
        value = getattr(config, name)
        if not (math.isfinite(value) and value > 0):
            yield name, "a positive number", value
    if config.hidden_act not in _ACTIVATIONS:
        yield "hidden_act", f"one of {', '.join(_ACTIVATIONS)}", config.hidden_act
    if len(config.layer_types) not in (0, config.num_hidden_layers):
        yield "layer_types", f"one of each of {config.num_hidden_layers} layers", f"{len(config.layer_types)} of them"
    for kind in config.layer_types:
        if kind not in _LAYER_TYPES:
            yield "layer_types", " or ".join(_LAYER_TYPES), kind
    if _LAYER_TYPES[1] in config.layer_types and not config.sliding_window:
        yield "sliding_window", "a number of slots, since layers slide", config.sliding_window
