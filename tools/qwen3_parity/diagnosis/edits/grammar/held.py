"""Parameters as the candidate holds them, where they are not the checkpoint's and its recording has their numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.as_held import in_words
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
    loaded = {name: rows for name in _read(region) if (rows := held_rows(name, network.candidate)) is not None
              and rows.shape == np.shape(network.slices.leaves[network.graph.leaves[name]])}  # fmt: skip
    changes = {Site("", 0, opened(name)): _as_held for name in loaded}
    here = [site for site in changes if site in region.sites]
    product = product_of(network, region.key, 1.0) if here else None
    if not here or (product is not None and not product.hidden):
        return
    tensors = {name: network.slices.leaves[network.graph.leaves[name]] for name in network.graph.parameters}
    kind, says = in_words(loaded, tensors)
    yield Edit(kind, says, COMBINED, changes, parameter_line(region, region.at(here[0])[0]))


def _read(region: Region) -> list[str]:
    """The parameters that the tap reads in any layer, which only the first may do, in the graph's order."""
    graph, mine = region.network.graph, opened(region.key[0])
    values = [value for (name, _), value in graph.taps.items() if opened(name) == mine]
    nodes = (graph.node(node) for value in values for node in region.network.slices.order(value))
    leaves = {read for node in nodes if node is not None for read in node.reads}
    return [name for name in graph.parameters if graph.leaves[name] in leaves]


def _as_held(call: Call) -> Array:
    """The parameter of a call as it was loaded, or the checkpoint's."""
    rows = held_rows(call.region.names[call.value], call.region.network.candidate)
    stored = np.asarray(call.operands[0])
    return rows if rows is not None and rows.shape == stored.shape else stored
