"""What an op is: how it is computed at a place of a network, how far rounding may move it, what else is true of it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Array
from qwen3_spec.site import Result, Site

At = Callable[[str, Array], Array]
"""`at(step, value)`: what an op hands each value on the way to, under the name of its step, and goes on with."""


def unchanged(_step: str, value: Array) -> Array:
    """The ordinary `At`: nothing happens on the way."""
    return value


@dataclass(frozen=True)
class Op:
    """An op of a network table, under the table's name.

    `at_site(site, arithmetic)` is its output on a site's inputs in an arithmetic. Of an op with `steps`, the names of
    the values on the way in their order, `at_site(site, arithmetic, at)` is what comes out when `at` may change each of
    them; some are passed in some networks alone. `unit(site, y)` is the rounding unit of each element of the output
    `y`, absolute, for the inputs that it was computed from; None for an op that copies or chooses, which must be exact.
    `both(site)` gives output and unit in float64 where they are cheaper together, or where what is right depends on
    what was recorded (the angles of a table).

    `stored`: the steps, beside the last one, that Hugging Face stores in the model's own type. `copies`: it hands on
    numbers of other ops, and their error with them. `by_row`: a position's output depends on the inputs at that
    position alone. `masked`: the mask hides some of its cells, which are not judged; a fused attention never has such
    an op's output in memory. `added_products`: it adds two products that a narrow type rounds before they are added,
    and that may cancel.
    """

    name: str
    at_site: Callable[..., Array]
    unit: Callable[[Site, Array], Array] | None = None
    both: Callable[[Site], Result] | None = None
    steps: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    copies: bool = False
    by_row: bool = False
    masked: bool = False
    added_products: bool = False

    @property
    def exact(self) -> bool:
        """Whether it has the same bits wherever it is computed: a mask, ids, rows of a table."""
        return not self.copies and self.unit is None and self.both is None

    def truth(self, site: Site) -> Result:
        """The output on a site's inputs in float64, and its rounding unit; None for the unit of an exact op.

        The unit is 0 where the run says that nobody asks for `units`: sums of what may cancel cost more than the op.
        """
        if self.both is not None:
            return self.both(site)
        y = self.at_site(site, FLOAT64)
        if self.unit is not None and not site.values.units:
            return y, np.broadcast_to(0.0, y.shape)
        return y, None if self.unit is None else self.unit(site, y)
