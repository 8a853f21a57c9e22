"""What numbers a `config.json` may have: beyond these no network was ever built, and a reader would hang or fall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwen3_golden import rules

SIZES: dict[str, tuple[int, int]] = {
    **rules.SIZES,
    "max_position_embeddings": (0, 1 << 31),  # a classic encoder may start with hidden states
    "sliding_window": (0, 1 << 31),
    "max_window_layers": (0, 1 << 31),
}
_NO_HEAD = {"head_dim": (0, SIZES["head_dim"][1])}
NUMBERS: dict[str, tuple[float, float]] = {
    "rms_norm_eps": (0.0, 1.0),
    "layer_norm_eps": (0.0, 1.0),
    "rope_theta": (0.0, 1e30),
}
"""Above the first, up to the second."""
_LAYERS = rules.SIZES["num_hidden_layers"][1]
_SECTIONS = ("rope_parameters", "rope_scaling")


def out_of_bounds(config: Mapping[str, Any], *, of_any_family: bool = False) -> tuple[str, str, str] | None:
    """The first field that is out of bounds: its name, what was expected, what it is; None without one.

    Fields that are absent or null are nobody's concern here. `of_any_family`: a size may be a list of one for each
    layer, and head_dim 0, of heads that do not turn.
    """
    sections = [("", config)]
    sections += [(f"{key}.", config[key]) for key in _SECTIONS if isinstance(config.get(key), Mapping)]
    for prefix, section in sections:
        for name, (least, most) in (SIZES | _NO_HEAD if of_any_family else SIZES).items():
            value = section.get(name)
            values = value if of_any_family and isinstance(value, list) and len(value) <= _LAYERS else [value]
            if value is not None and not all(type(size) is int and least <= size <= most for size in values):
                kind = "a positive integer" if least else "an integer"
                return f"{prefix}{name}", f"{kind}, {least} to {most}", repr(value)[:80]
        for name, (above, limit) in NUMBERS.items():
            value = section.get(name)
            if value is not None and not (type(value) in (int, float) and above < value <= limit):
                return f"{prefix}{name}", f"a positive number, at most {limit:g}", repr(value)[:80]
    return None
