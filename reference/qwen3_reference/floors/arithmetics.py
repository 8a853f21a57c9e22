"""Noise floors: how far float32 drifts at each tap of a whole run, measured, in the tap's own unit.

Floor = the larger of the error of what was recorded (HF) and the error of the specification run in float32 with plain
sequential sums, both against the specification in float64, as whole runs that share HF's cos, sin and positions. Never
below half a unit in the last place of the tap's scale. Only judged elements count. In bfloat16 the recorded run's error
is the floor: there the specification's float32 has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from qwen3_golden import Array, Place, pb
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_reference.floors.generation_spec import Choices
from qwen3_reference.floors.scope import Scope
from qwen3_reference.floors.table_rounding import frequency_rounding
from qwen3_spec import Arithmetic, Cache, RopeScaling, decoder_step, encoder
from qwen3_spec.model import Layer, computed
from qwen3_spec.ops import OPS

Key = tuple[str, int]
_MANTISSA: dict[int, int] = {pb.F32: 24, pb.BF16: 8, pb.F16: 11}


def has_floor(place: Place) -> bool:
    """Whether a tap is judged by a floor; the others are compared exactly."""
    return place.op != "input" and not OPS[place.op].exact


def tokens(inputs: Mapping[str, Array], stack: str) -> Array:
    """What a stack starts from: ids `[batch, seq]`, or embeddings `[batch, seq, hidden]` where the case gives them."""
    embeddings = inputs.get(f"input.{stack}_inputs_embeds")
    return inputs[f"input.{stack}_input_ids"] if embeddings is None else embeddings


def decoder_mask(inputs: Mapping[str, Array], end: int) -> Array:
    """What decoder slots up to `end` see: padding `[batch, end]`, or the mask `[batch, end, end]` that is given."""
    whole = inputs.get("input.decoder_mask")
    return inputs["input.decoder_attention_mask"][:, :end] if whole is None else whole[:, :end, :end]


def spec_run(
    weights: Mapping[str, Array],
    scope: Scope,
    tables: Mapping[Key, Array],
    tap: Callable[[int, str, Array], None],
    arithmetic: Arithmetic,
    layer: Callable[[Cache], Layer] = lambda _cache: computed,
) -> None:
    """The case once more with the specification, given the recorded cos and sin (`tables`); taps go to `tap`.

    `layer(cache)` runs each layer of a stack that has this cache; the encoder's stays empty.
    """
    config, inputs = spec_config(scope.config), scope.inputs
    hidden = encoder_mask = None
    if "input.encoder_attention_mask" in inputs:
        encoder_mask = inputs["input.encoder_attention_mask"]
        hidden = encoder(
            weights,
            config,
            tokens(inputs, "encoder"),
            encoder_mask,
            tables["encoder.cos", 0],
            tables["encoder.sin", 0],
            lambda name, value: tap(0, name, value),
            arithmetic,
            layer(Cache()),
        )
    cache, end = Cache(), 0
    choices = None if scope.case is None else Choices(scope.case, inputs, scope.steps, tap, arithmetic)
    for step, length in enumerate(scope.steps):
        start, end = end, end + length
        if choices is not None:
            choices.enter(step, cache)
        logits = decoder_step(
            weights,
            config,
            tokens(inputs, "decoder")[:, start:end],
            decoder_mask(inputs, end),
            tables["decoder.cos", step],
            tables["decoder.sin", step],
            cache,
            lambda name, value, step=step: tap(step, name, value),  # type: ignore[misc]
            arithmetic,
            hidden,
            encoder_mask,
            tables.get(("decoder.encoder_cos", 0)),
            tables.get(("decoder.encoder_sin", 0)),
            layer(cache),
        )
        if choices is not None:
            choices.leave(step, logits)


def _rms(square: Array, count: Array, axes: tuple[int, ...]) -> Array:
    """Root mean square over `axes` of what is judged; 0 where nothing is."""
    total, number = square.sum(axis=axes), count.sum(axis=axes)
    return np.asarray(np.sqrt(total / np.maximum(number, 1)))


def error(actual: Array, expected: Array, judged: Array, axes: Iterable[str]) -> pb.Floor:
    """RMS, maximum, worst row and worst head of `actual - expected` over the judged elements, in float64."""
    names = tuple(axes)
    judged = np.broadcast_to(judged, expected.shape)
    square = np.where(judged, actual.astype(np.float64) - expected, 0.0) ** 2
    every = tuple(range(len(names)))
    position = next((names.index(name) for name in ("query", "key") if name in names), 0)
    rows = _rms(square, judged, tuple(axis for axis in every if axis not in (0, position)) or every)
    head = next((axis for axis, name in enumerate(names) if name in ("heads", "kv_heads")), None)
    heads = np.zeros(1) if head is None else _rms(square, judged, tuple(axis for axis in every if axis != head))
    return pb.Floor(
        rms=float(_rms(square, judged, every)),
        max=float(np.sqrt(square.max(initial=0.0))),
        row=float(rows.max(initial=0.0)),
        head=float(heads.max(initial=0.0)),
    )


def larger(floors: Iterable[pb.Floor]) -> pb.Floor:
    """The larger of each number."""
    given = list(floors)
    return pb.Floor(
        rms=max(f.rms for f in given),
        max=max(f.max for f in given),
        row=max(f.row for f in given),
        head=max(f.head for f in given),
    )


def half_ulp(value: float, dtype: int) -> float:
    """Half a unit in the last place of a number of this size, in `dtype`."""
    return float(np.ldexp(1.0, int(np.frexp(max(abs(value), 1e-30))[1]) - _MANTISSA[dtype] - 1))


def scale(truth: Array, judged: Array) -> tuple[float, float]:
    """RMS and largest magnitude of the judged elements; 0 where there are none."""
    counted = np.abs(truth[np.broadcast_to(judged, truth.shape)])
    return (float(np.sqrt(np.mean(counted**2))), float(counted.max())) if counted.size else (0.0, 0.0)


def least(truth: Array, judged: Array, axes: Iterable[str], dtype: int) -> pb.Floor:
    """Half an ULP of the tap's scale: of its RMS, and for the maximum of its largest element."""
    rms, largest = (half_ulp(value, dtype) for value in scale(truth, judged))
    has_heads = bool({"heads", "kv_heads"} & set(axes))
    return pb.Floor(rms=rms, max=largest, row=rms, head=rms if has_heads else 0.0)


def frequency_floor(head_dim: int, theta: float, scaling: RopeScaling | None) -> pb.Floor:
    """inv_freq: the RMS and the largest of what honest float32 moves it by, relative to each frequency."""
    rounding = frequency_rounding(head_dim, theta, scaling)
    rms = float(np.sqrt(np.mean(rounding**2)))
    return pb.Floor(rms=rms, max=float(rounding.max()), row=rms)
