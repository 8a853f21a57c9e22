"""What a recording says of every place in the network: the tap itself, or what follows from the nearest taps before it.

A recording may hold only some of the taps (a backend that never materialises scores, a port that delivers layer
outputs). What lies between is then computed by the specification, and ops without a tap between them are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qwen3_golden import ENCODERS, Array, Place, Recording, kept_whole, pb, place
from qwen3_golden.taps import GIVEN_OR_NOT
from qwen3_parity.blame.evidence import as_stored
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_spec import SpecConfig
from qwen3_spec.ops import OPS, beams
from qwen3_spec.site import Result, Site

Overrides = Mapping[str, Callable[[Site], Result]]
"""Another way to compute a place, by its pattern."""
CHOICES = frozenset({"next_token_probs", *(op.name for op in beams.OPS)})
_LARGEST = 1e18
_STORED: Mapping[int, int] = {pb.ARITHMETIC_BF16: pb.BF16, pb.ARITHMETIC_F16: pb.F16}


@dataclass
class Values:
    """The taps of `recording`, what they imply, and the parameters in `weights` (by canonical name).

    `given` is the recording whose `input.*` count: what a case is given is never taken from a candidate's word.
    `dropped` are patterns to be treated as not recorded; `overrides` computes some places in another way; `noise` adds
    to every computed value a random multiple of its rounding unit; `given_tables` takes cos and sin from `given`.
    `computed` has the taps that `value` had to compute since it was cleared, None for those that cannot be had.
    """

    recording: Recording
    weights: Mapping[str, Array]
    given: Recording | None = None
    dropped: frozenset[str] = frozenset()
    overrides: Overrides = field(default_factory=dict)
    noise: np.random.Generator | None = None
    given_tables: bool = False
    computed: dict[tuple[str, int], Array | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.case: pb.Case = (self.given or self.recording).case
        self.config: SpecConfig = spec_config(self.case.config)
        self.dtype: int = _STORED.get(self.recording.run.arithmetic, pb.F32)

    def another(self, **changes: Any) -> Values:
        """The same with other `dropped`, `overrides` or `noise`, and nothing computed yet."""
        return replace(self, computed={}, **changes)

    def place(self, name: str) -> Place | None:
        """The place of a tap name in this network."""
        return place(name, self.config.num_hidden_layers)

    def recorded(self, name: str, step: int) -> Array | None:
        """A tap as it was recorded (bfloat16 widened), or None."""
        given = name.startswith("input.")
        if self.given_tables and self.given is not None and name.endswith(("cos", "sin")):
            table = self.given.get(name, step) or self.given.get(name, 0)
            return None if table is None else table.values()
        source = (self.given or self.recording) if given else self.recording
        found = source.get(name, 0 if given else step)
        if found is None and made_once(name):
            found = source.get(name, 0)
        if found is None:
            return None
        if self.dropped and (spot := self.place(name)) is not None and spot.pattern in self.dropped:
            return None
        return found.values()

    def value(self, name: str, step: int) -> Array | None:
        """A tap as recorded, or computed from what was; None where neither is possible."""
        found = self.recorded(name, step)
        if found is not None:
            return found
        key = name, 0 if made_once(name) else step
        if key not in self.computed:
            self.computed[key] = None  # what cannot be had stands as None, so that nobody asks again
            site = self.site(*key)
            if site is None:
                return None
            y, unit = self.compute(site)
            if self.noise is not None and unit is not None:
                y = y + as_stored(unit, y, site.place.op, self.dtype) * self.noise.standard_normal(y.shape)
            self.computed[key] = y
        return self.computed[key]

    def compute(self, site: Site) -> Result:
        """The op of a site on its inputs, by the specification or as an override has it."""
        with np.errstate(all="ignore"):
            return self.overrides.get(site.place.pattern, OPS[site.place.op].truth)(site)

    def site(self, name: str, step: int) -> Site | None:
        """The op that makes a tap, with its inputs; None when one of them is not to be had, or it is not computed."""
        spot = self.place(name)
        if spot is None or not self.computes(spot):
            return None
        names = self._inputs(spot)
        cached = spot.op.startswith("cache") and step > 0
        if spot.op == "cache_once" and cached:
            names = ()
        back = int(spot.op == "beam_scores")  # by which rows enter a step follows from the step before
        if step < back:
            return None
        found = [self.value(one, step if one.startswith("input.") else step - back) for one in names]
        before = self._before(spot, step) if cached or back else None
        inputs = tuple(_in_range(one) for one in found if one is not None)
        if len(inputs) < len(names) or ((cached or (back and step > 1)) and before is None):
            return None
        return Site(
            place=spot,
            step=step,
            names=names,
            inputs=inputs,
            parameters=self.parameters(spot),
            config=self.config,
            case=self.case,
            values=self,
            checkpoint=self.weights,
            length=self._length(spot, step),
            before=before,
        )

    def computes(self, spot: Place) -> bool:
        """Whether a place's op is computed again: what is chosen, only where the case says how."""
        return spot.op in OPS and (spot.op not in CHOICES or self.case.HasField("generation"))

    def _before(self, spot: Place, step: int) -> Array | None:
        """What a place had in the step before; of a growing cache, each beam's row is the one it goes on from."""
        if spot.op == "beam_scores":
            return self.value(spot.name, step - 1) if step > 1 else None
        held, beam_idx = self.value(spot.name, step - 1), self.recorded("input.beam_idx", 0)
        return held[beam_idx[step]] if held is not None and beam_idx is not None and spot.op == "cache" else held

    def parameters(self, spot: Place) -> dict[str, Array]:
        """The weight and bias of a place, as loaded; raises `KeyError` for an op whose weight is not there."""
        found = {name.rpartition(".")[2]: self.weights[name] for name in spot.parameters if name in self.weights}
        if spot.parameters and "weight" not in found:
            raise KeyError(f"{spot.name}: no weight among the parameters")
        return found

    def _inputs(self, spot: Place) -> tuple[str, ...]:
        """The taps that the network has for a place's inputs, whether they were recorded or not."""
        some = {name for alternatives in spot.inputs for name in alternatives}
        every = {n for n in some if not n.endswith(GIVEN_OR_NOT) or self.recorded(n, 0) is not None}
        without = spot.optional if self.case.mode != pb.ENCODER_DECODER else frozenset()
        return tuple(n for n in spot.inputs_in(every, self.case.config) if n not in without)

    def _length(self, spot: Place, step: int) -> int:
        if not {"query", "key"} & set(spot.axes):
            return 0
        encoder = spot.name.startswith(ENCODERS) or "encoder_" in spot.name.rpartition(".")[2]
        if encoder:
            mask = self.recorded("input.encoder_attention_mask", 0)
            length = 0 if mask is None else mask.shape[1]
        else:
            length = self.case.steps[step] if step < len(self.case.steps) else 0
        kept = self.case.rows
        return length if not kept or "query" not in spot.axes or kept_whole(spot.name) else min(kept, length)


def _in_range(values: Array) -> Array:
    """Numbers whose squares float32 cannot hold as NaN: what an honest op makes of them says nothing of the op."""
    if values.dtype.kind != "f" or not values.size or -_LARGEST < float(values.min()) <= float(values.max()) < _LARGEST:
        return values
    with np.errstate(all="ignore"):
        return np.where(np.abs(values) < _LARGEST, values, np.nan)


def made_once(name: str) -> bool:
    """Whether a tap exists at step 0 alone and later steps read it there."""
    if name.startswith(("input.", *ENCODERS)) or name.endswith(".inv_freq"):
        return True
    # A cache is recorded at every step.
    return ".encoder_" in name
