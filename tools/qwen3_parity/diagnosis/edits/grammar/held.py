"""Parameters as the candidate holds them, where they are not the checkpoint's and its recording has their numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.as_held import held_whole, in_words
from qwen3_parity.diagnosis.edits.edit import Call, Edit, Site, opened
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import parameter_line
from qwen3_parity.diagnosis.findings.product_of_graph import product_of
from qwen3_parity.mistakes.parameters import held_rows
from qwen3_parity.mistakes.ranks import COMBINED


def held(region: Region) -> Iterator[Edit]:
    """All of them at once: what was loaded is known, so that no guess is needed.

    Of a product that was recorded on both sides its numbers tell more.
    """
    network = region.network
    same = (value for (name, _), value in network.graph.taps.items() if opened(name) == opened(region.key[0]))
    loaded = held_whole(network.parameters_of(same), network)  # those of any layer: the first reads more
    changes = {Site("", 0, opened(name)): _as_held for name in loaded}
    here = [site for site in changes if site in region.sites]
    product = product_of(network, region.key, 1.0) if here else None
    if not here or (product is not None and not product.hidden):
        return
    kind, says = in_words(loaded, {name: network.parameter(name) for name in network.graph.parameters})
    yield Edit(kind, says, COMBINED, changes, parameter_line(region, region.at(here[0])[0]))


def _as_held(call: Call) -> Array:
    """The parameter of a call as it was loaded, or the checkpoint's."""
    rows = held_rows(call.region.names[call.value], call.region.network.candidate)
    stored = np.asarray(call.operands[0])
    return rows if rows is not None and rows.shape == stored.shape else stored
