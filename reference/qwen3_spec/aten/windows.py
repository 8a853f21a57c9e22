"""Ops that read windows of the last axes: convolutions, means and maxima over neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from math import prod
from typing import Any, NamedTuple

import numpy as np

from qwen3_spec.arithmetic import Array
from qwen3_spec.aten.numbers import Numbers

Sides = tuple[int, int]


class Windows(NamedTuple):
    """Along each of the last axes: places of a window, places padded before and behind, how far windows and places
    stand from one another.
    """

    taps: tuple[int, ...]
    sides: tuple[Sides, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    def padded(self, sizes: Sequence[int]) -> list[int]:
        """The sizes of the padded axes."""
        return [size + before + behind for size, (before, behind) in zip(sizes, self.sides, strict=True)]

    def steps(self, sizes: Sequence[int]) -> list[int]:
        """How many windows axes of these sizes have."""
        reach = [(taps - 1) * dilation for taps, dilation in zip(self.taps, self.dilations, strict=True)]
        every = zip(self.padded(sizes), reach, self.strides, strict=True)
        return [max((size - far - 1) // stride + 1, 0) for size, far, stride in every]

    def of(self, x: Array, value: float = 0) -> Array:
        """The windows of `[…, size, …]`, padded with a value, as `[…, step, …, tap, …]`, a view."""
        x = np.pad(x, [(0, 0)] * (x.ndim - len(self.sides)) + list(self.sides), constant_values=value)
        reach = [(taps - 1) * dilation + 1 for taps, dilation in zip(self.taps, self.dilations, strict=True)]
        runs = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(-len(reach), 0)))
        every: tuple[Any, ...] = tuple(slice(None, None, step) for step in self.strides + self.dilations)
        return np.asarray(runs[(..., *every)])


def of_convolution(
    taps: Sequence[int],
    strides: Sequence[int] = (),
    padding: Sequence[int] | str = (),
    dilations: Sequence[int] = (),
) -> Windows:
    """A convolution's windows; what is left out is 1, and a padding of 0; "same" pads as many places as a window adds.

    Raises `ValueError` for another word.
    """
    ones = (1,) * len(taps)
    strides, dilations = tuple(strides) or ones, tuple(dilations) or ones
    if min(strides + dilations) < 1:
        raise ValueError("windows, and the places of each, are 1 or more apart")
    if padding == "same":
        added = [(count - 1) * dilation for count, dilation in zip(taps, dilations, strict=True)]
        sides = tuple((more // 2, more - more // 2) for more in added)
    elif isinstance(padding, str) and padding != "valid":
        raise ValueError(f"no padding of a convolution: {padding!r}")
    else:
        counts = () if isinstance(padding, str) else padding
        sides = tuple((count, count) for count in counts) or ((0, 0),) * len(taps)
    return Windows(tuple(taps), sides, strides, dilations)


def of_pool(
    sizes: Sequence[int],
    taps: Sequence[int],
    strides: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilations: Sequence[int] = (),
    *,
    ceil_mode: bool = False,
) -> Windows:
    """A pool's windows over axes of these sizes, beside one another unless it says how far apart they stand.

    `ceil_mode`: a last window may go beyond the end, if it begins before it.
    """
    windows = of_convolution(taps, tuple(strides) or taps, padding, dilations)
    if not ceil_mode:
        return windows

    def behind(size: int, taps: int, side: Sides, stride: int, dilation: int) -> Sides:
        reach, end = (taps - 1) * dilation + 1, size + side[0]
        last = min(-((reach - end - side[1]) // stride), (end - 1) // stride) * stride
        return side[0], max(side[1], last + reach - end)

    sides = tuple(starmap(behind, zip(sizes, *windows, strict=True)))
    return windows._replace(sides=sides)


def convolution(
    numbers: Numbers,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sequence[int] = (),
    padding: Sequence[int] | str = (),
    dilation: Sequence[int] = (),
    groups: int = 1,
) -> Array:
    """A convolution along the last axes: `[batch, in, …]`, `[out, in / groups, tap, …]` to `[batch, out, …]`."""
    out, group_channels, *taps = weight.shape
    windows = of_convolution(taps, stride, padding, dilation).of(x)  # [batch, in, step, …, tap, …]
    batch, channels, *steps = windows.shape[: -len(taps)]
    count, size = prod(steps), group_channels * prod(taps)
    rows = windows.reshape(batch, groups, channels // groups, count, prod(taps))
    rows = rows.transpose(0, 1, 3, 2, 4).reshape(batch, groups, count, size)
    columns = weight.reshape(groups, out // groups, size).transpose(0, 2, 1)
    y = numbers.matmul(rows, columns).transpose(0, 1, 3, 2).reshape(batch, out, *steps)
    return np.asarray(y if bias is None else y + bias.reshape(-1, *[1] * len(taps)))


def max_pool(
    x: Array,
    taps: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    ceil_mode: bool = False,
) -> Array:
    """The largest of each window of the last axes."""
    windows = of_pool(x.shape[-len(taps) :], taps, stride, padding, dilation, ceil_mode=ceil_mode)
    return np.asarray(windows.of(x, -np.inf).max(tuple(range(-len(taps), 0))))


def mean_pool(
    numbers: Numbers,
    x: Array,
    taps: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of each window of the last axes, over what lies within them, with their padding or without it."""
    sizes, axes = x.shape[-len(taps) :], tuple(range(-len(taps), 0))
    windows = of_pool(sizes, taps, stride, padding, ceil_mode=ceil_mode)
    total = numbers.sum(windows.of(x), axes)
    if divisor_override is not None:
        return np.asarray(total / x.dtype.type(divisor_override))
    plain = of_convolution(taps, (), padding)
    within = np.ones(plain.padded(sizes) if count_include_pad else sizes)
    inside = zip(windows.sides, plain.sides, strict=True)
    sides = tuple((0, far[1] - near[1]) for far, near in inside) if count_include_pad else windows.sides
    return np.asarray(total / windows._replace(sides=sides).of(within).sum(axes).astype(x.dtype))
