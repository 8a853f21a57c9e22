"""Parameters as the candidate holds them, where they are not the checkpoint's and its recording has their numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.as_held import in_words
from qwen3_parity.diagnosis.edits.edit import Call, Edit, opened
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import parameter_line
from qwen3_parity.diagnosis.findings.product_of_graph import product_of
from qwen3_parity.mistakes.parameters import held_rows
from qwen3_parity.mistakes.ranks import COMBINED


def held(region: Region) -> Iterator[Edit]:
    """All of them at once: what was loaded is known, so that no guess is needed.

    Of a product that was recorded on both sides its numbers tell more.
    """
    network, names = region.network, region.names
    of_site = {site: names[places[0]] for site, places in region.sites.items() if places[0] in names and not site.file}
    every = {site: _whole(region, name) for site, name in of_site.items()}
    changes = {site: _as_held for site, rows in every.items() if rows is not None}
    product = product_of(network, region.key, 1.0) if changes else None
    if not changes or (product is not None and not product.hidden):
        return
    kinds = {opened(of_site[site]) for site in changes}
    loaded = {name: rows for name in network.graph.parameters
              if opened(name) in kinds and (rows := _whole(region, name)) is not None}  # fmt: skip
    tensors = {name: network.slices.leaves[network.graph.leaves[name]] for name in network.graph.parameters}
    kind, says = in_words(loaded, tensors)
    yield Edit(kind, says, COMBINED, changes, parameter_line(region, region.at(next(iter(changes)))[0]))


def _whole(region: Region, name: str) -> Array | None:
    rows = held_rows(name, region.network.candidate)
    return rows if rows is not None and rows.shape == np.shape(region.parameter(name)) else None


def _as_held(call: Call) -> Array:
    """The parameter of a call as it was loaded, or the checkpoint's."""
    rows = held_rows(call.region.names[call.value], call.region.network.candidate)
    stored = np.asarray(call.operands[0])
    return rows if rows is not None and rows.shape == stored.shape else stored
