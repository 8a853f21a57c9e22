"""Changes that the network does not notice where it matters: seen only at the taps that they leave in place."""

from __future__ import annotations

from typing import Any

from detection.honest.calls import calling, explicit
from detection.honest.ours import ours
from detection.honest.variation import Variation, float32_alone
from qwen3_golden import Recording, pb


def _later(stack: Any, side: str, arguments: dict[str, Any]) -> None:
    explicit(stack, side, arguments)
    for name in ("position_ids", "encoder_position_ids"):
        if arguments.get(name) is not None:
            arguments[name] = arguments[name] + 1


_NEAR = 256
"""Positions from which a float32 angle is rounded by more than the arithmetic that follows it."""


def _relative(golden: Recording) -> bool:
    """Whether every key is rotated, so that only distances count, by angles that are hardly rounded."""
    unrotated = golden.case.mode == pb.ENCODER_DECODER and not golden.case.config.rotate_encoder_keys
    positions = [item.array for item in golden if item.info.name.endswith("_position_ids")]
    return float32_alone(golden) and not unrotated and max(int(ids.max()) for ids in positions) < _NEAR


_CHOSEN = ("generated_ids", "next_token_probs")


def _outputs(row: pb.Tap) -> bool:
    """What is left in place: layer outputs, norms and logits, what is chosen by them, and the gradients of all that."""
    return row.pattern.endswith((".output", ".norm", "logits", ".embed_tokens", "loss", *_CHOSEN, ".weight", ".bias"))


VARIATIONS = (
    Variation("positions_from_1", "every position one further", ours(calling(_later), shows=_outputs), _relative),
)
