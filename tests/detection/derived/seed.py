"""A committed golden's case, and the places of it at which a mistake can be made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from qwen3_golden import GOLDEN_ROOT, pb, place, read, table
from qwen3_parity.blame.rerun import Compute, Rerun, seeded
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site

__all__ = ["Case", "Compute", "case_of", "seeded"]

_PARAMETERS = ("weight_gradient", "bias_gradient", "norm_weight_gradient", "embedding_gradient")


@dataclass(frozen=True)
class Case(Rerun):
    """A golden with its parameters and the places of its network."""

    def sites(self, pattern: str) -> Iterator[Site]:
        """The right run's sites of a pattern, in every layer and step: those of the second layer and step first."""
        layers = range(self.reference.config.num_hidden_layers) if "{layer}" in pattern else range(1)
        steps = range(max(1, len(self.golden.case.steps)))
        keys = [(layer, step) for layer in layers for step in steps]
        back = self._has_way_back(pattern)
        for layer, step in sorted(keys, key=lambda key: (key[0] != 1, key[1] != 1, key)):
            name = pattern.replace("{layer}", str(layer))
            target = place(name, self.reference.config.num_hidden_layers)
            passes = back and (not target or target.op not in _PARAMETERS)  # gradients of parameters are all recorded
            if target is None or not (passes or (name, step) in self.golden):
                continue
            site = self.reference.site(name, step)
            if site is not None:
                yield site

    def _has_way_back(self, pattern: str) -> bool:
        """Whether a gradient is of this network: most of a way back is recorded nowhere, and is computed."""
        both = self.golden.case.mode == pb.ENCODER_DECODER
        decoder_alone = pattern.startswith("gradient.decoder") and ".encoder_" not in pattern
        return pattern.startswith("gradient.") and self.golden.case.HasField("training") and (both or decoder_alone)

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of the places that can be computed, in the table's order."""
        rows = (row.pattern for row in table() if row.op in OPS)
        return tuple(pattern for pattern in rows if next(self.sites(pattern), None) is not None)


@cache
def case_of(name: str) -> Case:
    """A committed golden and its checkpoint, read once."""
    golden = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
    return Case(name, golden, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
