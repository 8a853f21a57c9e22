"""The command that captures a golden's case again in another arithmetic, where its inputs can be typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from qwen3_golden import Array, Recording, pb
from qwen3_parity.judge.next_command import command

_TYPED = {"input.input_ids", "input.attention_mask", "input.position_ids"}
_AROUND = ("score", "embedding")
"""Results of a module around the model, which options that no golden keeps have made."""


def recapture(golden: Recording, dtype: str, model: str | Path | None = None) -> tuple[str, Path] | None:
    """The capture of a golden's rows and steps in a dtype, and the file that it makes; None where it would be another.

    `model` is the checkpoint, else it is looked for beside the golden.
    """
    here = Path(golden.source)
    checkpoint = Path(model) if model is not None else here.parent
    if model is None and not (checkpoint / "config.json").is_file():
        return None
    words, out = _rows(golden), here.with_name(f"{here.stem}_{dtype}.pb")
    if words is None:
        return None
    return command("capture", "--quiet", "--model", checkpoint, *words, "--dtype", dtype, "--out", out), out


def _rows(golden: Recording) -> list[str] | None:
    """The case's ids, padding and steps as options of `capture`; None where they are not what it would make of them."""
    inputs = {item.info.name: item.array for item in golden if item.info.name.startswith("input.")}
    ids, mask = (inputs.get(f"input.{name}") for name in ("input_ids", "attention_mask"))
    others = set(inputs) - _TYPED or any((name, 0) in golden for name in _AROUND)
    if golden.case.mode != pb.GRAPH or others or ids is None or mask is None or mask.ndim != 2:
        return None
    steps, real = list(golden.case.steps), mask.astype(bool)
    side = _side(real)
    if side is None or steps[1:] != [1] * (len(steps) - 1) or (ids[~real] != _pad(golden)).any():
        return None
    if not _counted(inputs.get("input.position_ids"), real):
        return None
    rows = ";".join(",".join(map(str, row[tokens])) for row, tokens in zip(ids, real, strict=True))
    padding = [] if real.all() else ["--padding", side]
    return ["--ids", rows, *padding, *(["--steps", str(len(steps) - 1)] if len(steps) > 1 else [])]


def _counted(positions: Array | None, real: Array) -> bool:
    """Whether positions are as `capture` has them: from each row's first token on."""
    if positions is None:
        return bool(real[:, 0].all())
    return bool((positions == np.maximum(real.cumsum(-1) - 1, 0)).all())


def _side(real: Array) -> str | None:
    """Where all rows are padded; None where a hole is in one, or each has another side."""
    length = real.sum(-1, keepdims=True)
    places = np.arange(real.shape[1])
    if (real == (places >= real.shape[1] - length)).all():
        return "left"
    return "right" if (real == (places < length)).all() else None


def _pad(golden: Recording) -> int:
    try:
        config = json.loads(golden.graph.config or "{}")
    except ValueError:  # a golden may say anything
        return 0
    pad = config.get("pad_token_id") if isinstance(config, dict) else None
    return pad if isinstance(pad, int) else 0
