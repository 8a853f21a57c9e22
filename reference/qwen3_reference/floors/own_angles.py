"""The angles of engines that compute their own: honest ones, as far from the reference's as libraries differ.

A frequency is a power, and the powers of libraries differ by a few ulp; the product with a position is rounded to
float32 by some engines and not by others. At position p that moves an angle by p times as much.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qwen3_golden import Array, Recording
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_spec import ops
from qwen3_spec.sweep import Key

ULPS = 2.0
"""How many float32 ulp an honest inv_freq may be off: a power that is computed in float32 throughout."""


def half_of(name: str) -> tuple[str, str] | None:
    """The stack of a cos or sin, and "encoder_" for those that turn the encoder's keys; None for another tap."""
    prefix, _, last = name.rpartition(".")
    half = "encoder_" if last.startswith("encoder_") else ""
    return (prefix, half) if last.removeprefix(half) in ("cos", "sin") else None


def moved_tables(tables: Mapping[Key, Array], attention_factor: float, ulps: float) -> dict[Key, Array]:
    """The same with the cos and sin of frequencies that are `ulps` float32 ulp larger, in float64.

    Each angle is half a float32 ulp off beside it, up or down as a product may be rounded: the same where position and
    pair are, or rotations that are relative would not show it.
    """
    moved = dict(tables)
    for name, step in tables:
        if (parts := half_of(name)) is not None:
            prefix, half = parts
            inv_freq = tables[f"{prefix}.inv_freq", 0].astype(np.float32)
            frequencies = inv_freq.astype(np.float64) + ulps * np.spacing(inv_freq).astype(np.float64)
            angles = _rounded_apart(tables[f"{prefix}.{half}position_ids", step], frequencies, inv_freq == 1)
            function = np.sin if name.endswith("sin") else np.cos
            moved[name, step] = attention_factor * function(np.concatenate([angles, angles], axis=-1))
    return moved


def _rounded_apart(positions: Array, frequencies: Array, exact: Array) -> Array:
    """Angles `[batch, seq, pair]`, each half a float32 ulp too large or too small, by a hash of position and pair.

    Pairs that are `exact` have a product that nothing rounds: theta^0 is 1.
    """
    angles = positions[..., None] * frequencies
    mixed = positions[..., None].astype(np.uint64) * 2654435761 + np.arange(len(frequencies), dtype=np.uint64) * 40503
    sign = ((mixed >> np.uint64(13)) & np.uint64(1)).astype(np.float64) * 2 - 1
    half_ulp = 0.5 * np.spacing(np.abs(angles).astype(np.float32)).astype(np.float64)
    return np.asarray(angles + np.where(exact, 0, sign * half_ulp))


def rope_tables(golden: Recording) -> dict[Key, Array]:
    """A golden's cos and sin with their positions and frequencies; those that it does not hold follow from its case."""
    config = spec_config(golden.case.config)
    tables = {item.key: item.values() for item in golden if not item.info.name.startswith("input.")}
    for (name, step), _ in list(tables.items()):
        if (parts := half_of(name)) is None:
            continue
        prefix, half = parts
        inv_freq = ops.inv_freq.forward(config.head_dim, config.rope_theta, config.rope_scaling)
        tables.setdefault((f"{prefix}.inv_freq", 0), inv_freq.astype(np.float32))
        if (f"{prefix}.{half}position_ids", step) not in tables:
            stack = "encoder" if half else prefix
            positions = golden[f"input.{stack}_position_ids", 0].array
            if stack == "decoder":
                stop = sum(golden.case.steps[: step + 1])
                positions = positions[:, stop - golden.case.steps[step] : stop]
            tables[f"{prefix}.{half}position_ids", step] = positions
    return tables
