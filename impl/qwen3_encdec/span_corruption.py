"""Span corruption (T5, https://arxiv.org/abs/1910.10683): spans become sentinels, the target says what they were."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch


@dataclass(frozen=True)
class Denoiser:
    """How much is hidden: `noise_density` of the ids (0 to 1), in spans of `mean_noise_span_length` ids on average.

    An infinite length hides one span at the end. `prefix` is text put in front of the input (UL2's mode tokens).
    """

    noise_density: float = 0.15
    mean_noise_span_length: float = 3.0
    prefix: str = ""

    def __post_init__(self) -> None:
        """`ValueError` for a density outside ]0, 1[ and a length below 1."""
        if not 0 < self.noise_density < 1:
            raise ValueError(f"noise_density = {self.noise_density} must lie between 0 and 1")
        if not self.mean_noise_span_length >= 1:
            raise ValueError(f"mean_noise_span_length = {self.mean_noise_span_length} must be at least 1")


T5 = (Denoiser(),)
"""The one mixture of T5."""

UL2 = (
    *(Denoiser(0.15, 3, "[R]"), Denoiser(0.15, 8, "[R]")),
    *(Denoiser(0.5, 3, "[X]"), Denoiser(0.5, 8, "[X]"), Denoiser(0.15, 64, "[X]"), Denoiser(0.5, 64, "[X]")),
    Denoiser(0.25, math.inf, "[S]"),
)
"""The mixture of UL2 (https://arxiv.org/abs/2205.05131): regular, extreme and sequential denoising, each as likely."""


def counts(length: int, denoiser: Denoiser) -> tuple[int, int]:
    """How many ids of a sequence are hidden, and in how many spans; at least one of each, and one id stays.

    `ValueError` for fewer than two ids.
    """
    if length < 2:
        raise ValueError(f"a sequence of {length} ids has nothing to hide a part of; expected at least 2")
    hidden = min(max(round(length * denoiser.noise_density), 1), length - 1)
    spans = max(round(hidden / denoiser.mean_noise_span_length), 1)
    return hidden, min(spans, hidden, length - hidden)


def _lengths(total: int, parts: int, generator: torch.Generator | None) -> list[int]:
    """`total` cut into `parts` positive lengths, every way of cutting as likely as the others."""
    cuts = torch.randperm(total - 1, generator=generator)[: parts - 1].sort().values + 1
    edges = [0, *cuts.tolist(), total]
    return [end - begin for begin, end in pairwise(edges)]


def noise_spans(length: int, denoiser: Denoiser, generator: torch.Generator | None = None) -> list[tuple[int, int]]:
    """Random spans (begin, end) to hide, ascending, at least one id before each; the last one ends the sequence."""
    hidden, spans = counts(length, denoiser)
    noise, clean = _lengths(hidden, spans, generator), _lengths(length - hidden, spans, generator)
    ranges, position = [], 0
    for before, long in zip(clean, noise, strict=True):
        ranges.append((position + before, position + before + long))
        position += before + long
    return ranges


def corrupt(ids: Sequence[int], spans: Sequence[tuple[int, int]], sentinels: range) -> tuple[list[int], list[int]]:
    """The input, in which span i is sentinel i, and the target, in which the span's ids follow its sentinel.

    `sentinels` are the ids, ascending. `ValueError` for more spans than sentinels, for spans that overlap or leave the
    sequence, and for ids that are sentinels already.
    """
    if len(spans) > len(sentinels):
        raise ValueError(f"{len(spans)} spans need as many sentinels; there are {len(sentinels)}: cut the text shorter")
    if taken := [index for index, number in enumerate(ids) if number in sentinels]:
        raise ValueError(f"id {ids[taken[0]]} at {taken[0]} is a sentinel already; the target would be ambiguous")
    source: list[int] = []
    target: list[int] = []
    position = 0
    for sentinel, (begin, end) in zip(sentinels, spans, strict=False):
        if not position <= begin < end <= len(ids):
            raise ValueError(f"the span {begin} … {end} does not follow {position} within {len(ids)} ids")
        source += [*ids[position:begin], sentinel]
        target += [sentinel, *ids[begin:end]]
        position = end
    return source + list(ids[position:]), target


def restore(source: Sequence[int], target: Sequence[int], sentinels: range) -> list[int]:
    """The ids that `corrupt` took apart, the exact inverse; ids behind the last span in the target (an end of sequence)
    must be cut off before. `ValueError` when the two do not name the same sentinels in the same order.
    """
    hidden: dict[int, list[int]] = {}
    last: list[int] | None = None
    for number in target:
        if number in sentinels and number not in hidden:
            last = hidden[number] = []
        elif last is None or number in sentinels:
            raise ValueError(f"the target has {number} where a sentinel not used before must stand")
        else:
            last.append(number)
    named = [number for number in source if number in sentinels]
    if named != list(hidden):
        raise ValueError(f"the input has the sentinels {named}, the target {list(hidden)}")
    return [part for number in source for part in hidden.get(number, [number])]
