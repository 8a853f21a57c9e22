"""Which numbers of a tensor share something, as a scale: all, a row, a channel, a head, a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qwen3_golden import Array

_BLOCKS = (8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Grouping:
    """Numbers that share something are along `across`, once the tensor has the shape `split`; `words` says them."""

    words: str
    split: tuple[int, ...]
    across: tuple[int, ...]

    def of(self, values: Array) -> Array:
        """A tensor in the shape that is split into groups."""
        return values.reshape(self.split)


def groupings(shape: Sequence[int], names: Sequence[str] = ()) -> Iterator[Grouping]:
    """From the fewest groups to the most, of a tensor whose last axis is channels; `names` are those of its axes."""
    axes, last = tuple(range(len(shape))), shape[-1] if shape else 1
    yield Grouping("the whole", tuple(shape), axes)
    if len(shape) < 2:
        return
    yield Grouping("each row of channels", tuple(shape), axes[-1:])
    yield Grouping("each channel", tuple(shape), axes[:-1])
    if len(shape) > 3:
        yield Grouping("each head", tuple(shape), axes[2:])
    tokens = tuple(at for at, name in enumerate(names[:-1]) if name in ("query", "key"))
    if len(shape) > 3 and tokens:
        yield Grouping("each channel of each head", tuple(shape), tokens)
    if len(shape) > 2:
        yield Grouping("each token's channel, over the batch", tuple(shape), axes[:1])
    for size in _BLOCKS:
        if size < last and last % size == 0:
            yield Grouping(f"each block of {size} channels", (*shape[:-1], last // size, size), (len(shape),))
