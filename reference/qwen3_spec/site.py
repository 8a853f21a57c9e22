"""One op at one place and step, with everything that it was computed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from qwen3_spec.arithmetic import Array
from qwen3_spec.config import SpecConfig

Result = tuple[Array, Array | None]
"""What an op gives on a site's inputs, and its rounding unit for each element; None for an op that is exact."""


class Place(Protocol):
    """A row of a network table with its layer filled in; `stack` is "encoder" or "decoder", whose positions it has."""

    @property
    def name(self) -> str: ...
    @property
    def pattern(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def axes(self) -> tuple[str, ...]: ...
    @property
    def inputs(self) -> tuple[tuple[str, ...], ...]: ...
    @property
    def parameters(self) -> tuple[str, ...]: ...
    @property
    def layer(self) -> int | None: ...
    @property
    def stack(self) -> str: ...


class Case(Protocol):
    """What an op asks of the case: field by field as in the schema, of which this package knows nothing else."""

    @property
    def steps(self) -> Sequence[int]: ...
    @property
    def max_new_tokens(self) -> int: ...
    @property
    def config(self) -> Any: ...
    @property
    def generation(self) -> Any: ...
    @property
    def training(self) -> Any: ...


class Taps(Protocol):
    """What an op, or a mistake of it, asks of the run that it stands in: other taps, as recorded or as they follow.

    `recording` is the run, `golden` the recording whose inputs count; `computed` has, by name and step, what was not
    recorded and was computed; `dtype` is the schema's type that floats are stored in; `units` says whether anybody asks
    for rounding units; `overrides` has other ways to compute a place, by pattern.
    """

    recording: Any
    golden: Any
    computed: dict[tuple[str, int], Array | None]
    dtype: int
    units: bool
    overrides: Mapping[str, Callable[[Site], Result]]

    def place(self, name: str) -> Any:
        """The place of a tap name in this network, None for a name of another one."""

    def recorded(self, name: str, step: int) -> Array | None:
        """A tap as it was recorded, or None."""

    def value(self, name: str, step: int) -> Array | None:
        """A tap as recorded, or computed from what was; None where neither is possible."""

    def site(self, name: str, step: int) -> Site | None:
        """The op that makes a tap, with its inputs; None when one of them is not to be had."""

    def parameters(self, place: Any) -> dict[str, Array]:
        """The weight and bias of a place, as loaded."""

    def compute(self, site: Site) -> Result:
        """The op of a site on its inputs."""

    def another(self, **changes: Any) -> Taps:
        """The same run with other patterns dropped, computed in another way, or with noise."""


@dataclass(frozen=True)
class Site:
    """An op to be computed. A wrong op is the same site with another input, parameter or number.

    `inputs` are values in the op's order, their taps in `names`; `parameters` has "weight" and, where the checkpoint
    has one, "bias". `before` is a cache's content after the step before. `length` counts the positions of this step
    along `query` (for a tap without that axis, along `key`). `values` answers for every other tap, and
    `checkpoint` has every parameter of the case by canonical name.
    """

    place: Place
    step: int
    names: tuple[str, ...]
    inputs: tuple[Array, ...]
    parameters: Mapping[str, Array]
    config: SpecConfig
    case: Case
    values: Taps
    checkpoint: Mapping[str, Array]
    length: int
    before: Array | None = None

    @property
    def scaling(self) -> float:
        """What scores are multiplied with."""
        return float(self.config.head_dim**-0.5)

    @property
    def stop(self) -> int:
        """Decoder slots after this step."""
        return sum(self.case.steps[: self.step + 1])

    @property
    def window(self) -> int | None:
        """The sliding window of the site's layer."""
        return self.config.window(self.place.layer or 0)

    @property
    def stack(self) -> str:
        """ "encoder" or "decoder"."""
        return self.place.stack

    def sibling(self, name: str) -> str:
        """Another tap of the same layer and attention (or MLP): the last part of the name replaced."""
        return f"{self.place.name.rpartition('.')[0]}.{name}"

    def this_step(self, values: Array) -> Array:
        """The slots `[batch, length, …]` of this step out of all of a stack's `[batch, total, …]`."""
        by_step = self.stack == "decoder" and "encoder_" not in self.place.name
        stop = self.stop if by_step else values.shape[1]
        return values[:, stop - self.length : stop]
