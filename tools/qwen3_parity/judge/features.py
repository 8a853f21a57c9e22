"""What an engine must have to run a golden's case: features, read off the golden itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from qwen3_golden import Recording, pb

_SIDES = ("encoder_", "decoder_", "")


def _has_input(golden: Recording, *names: str) -> bool:
    return any(f"input.{name}" in {t.info.name for t in golden} for name in names)


def _encoder(golden: Recording) -> bool:
    case = golden.case
    by_mode = case.mode in (pb.ENCODER, pb.ENCODER_DECODER, pb.CLASSIC_ENCODER)
    return by_mode or (case.mode == pb.BLOCK and case.checkpoint[0].role == "encoder")


def _padding(golden: Recording) -> bool:
    masks = (golden.get(f"input.{side}attention_mask", 0) for side in _SIDES)
    return any(mask is not None and not mask.array.all() for mask in masks)


def _positions(golden: Recording) -> bool:
    """Whether a real token stands elsewhere than the number of real tokens before it."""
    for side in _SIDES:
        mask, ids = (golden.get(f"input.{side}{name}", 0) for name in ("attention_mask", "position_ids"))
        if mask is not None and ids is not None:
            real = mask.array.astype(bool)
            if (ids.array != np.cumsum(real, axis=1) - 1)[real].any():
                return True
    return False


FEATURES: Mapping[str, Callable[[Recording], object]] = {
    "encoder": _encoder,
    "qk_norm": lambda golden: golden.case.config.use_qk_norm,
    "bias": lambda golden: golden.case.config.attention_bias,
    "window": lambda golden: "sliding_attention" in golden.case.config.layer_types,
    "yarn": lambda golden: golden.case.config.rope_scaling.rope_type == "yarn",
    "llama3": lambda golden: golden.case.config.rope_scaling.rope_type == "llama3",
    "padding": _padding,
    "positions": _positions,
    "mask_4d": lambda golden: _has_input(golden, "decoder_mask"),
    "inputs_embeds": lambda golden: _has_input(golden, "encoder_inputs_embeds", "decoder_inputs_embeds"),
    "generation": lambda golden: golden.case.max_new_tokens or golden.case.HasField("generation"),
    "training": lambda golden: golden.case.HasField("training"),
}
"""A feature's name, and whether a golden's case has it; `positions`: others than a count of the real tokens before."""


def features(golden: Recording) -> list[str]:
    """The names of the features that the golden's case has, in the order of `FEATURES`."""
    return [name for name, has in FEATURES.items() if has(golden)]
