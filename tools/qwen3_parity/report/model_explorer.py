"""What was found, laid over the network in Google's Model Explorer: a graph to open, and node data to drop on it.

Model Explorer finds the nodes of an overlay by their ids. Those of an exported PyTorch program are numbers that torch
counts up (`linear_7`), another model's others; so the graph comes along, a node a tap, its id the tap's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from qwen3_golden import Network
from qwen3_golden.networks import bound
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import Verdicts

_COLOURS = ((0.1, "#d9f0d3"), (0.5, "#a6dba0"), (1.0, "#fee08b"), (10.0, "#f46d43"), (1e9, "#b2182b"))
"""Up to which share of the budget a node has which background: green within, yellow at the edge, red beyond."""
_BEYOND = 1e9
"""A share that no budget allows; JSON has no infinity."""
_DOT = re.compile(r"\.(?!\d)")
"""A dot between groups: "decoder.layers.0.mlp" is the group mlp in layers.0 in decoder."""
_STACKS = frozenset({"encoder", "decoder", "pre_norm", "post_norm", "gradient"})


def node_data(verdicts: Verdicts, own: Sequence[OpVerdict]) -> dict[str, Any]:
    """Two overlays, "accumulated" and "own": the share of its budget that each tap uses, the worst of its steps.

    Accumulated is the run against the golden, own the tap's op on the candidate's own inputs. Each is the content of a
    file of node data as Model Explorer loads it; `results` is by tap name.
    """
    run = ((tap.name, tap.share) for tap in verdicts.taps if tap.metrics is not None or not tap.passed)
    alone = ((one.name, one.share) for one in own if not one.reason)
    title = verdicts.case.name
    return {
        "accumulated": _overlay(f"{title}: the run, share of its budget", run),
        "own": _overlay(f"{title}: each op alone, share of its budget", alone),
    }


def _overlay(name: str, shares: Iterable[tuple[str, float]]) -> dict[str, Any]:
    worst: dict[str, float] = {}
    for tap, share in shares:
        worst[tap] = max(worst.get(tap, 0.0), min(share, _BEYOND) if not math.isnan(share) else _BEYOND)
    return {
        "name": name,
        "results": {tap: {"value": float(f"{share:.4g}")} for tap, share in worst.items()},
        "thresholds": [{"value": share, "bgColor": colour} for share, colour in _COLOURS],
    }


def network_graph(verdicts: Verdicts) -> dict[str, Any]:
    """The network of a verdict as a graph that Model Explorer opens: a node a tap, an edge an input.

    Layers are groups. A node's attributes are its op and where Hugging Face has it.
    """
    named = {tap.name for tap in verdicts.taps} | set(verdicts.not_materialised)
    stacks = {name.partition(".")[0] for name in named} & _STACKS
    network = Network(verdicts.case.config, frozenset(stacks))
    every = [name for _, block in network.blocks() for name in block]
    left_out = {name for name in every if "encoder_" in name and "encoder" not in stacks}
    left_out |= {name for name in every if "." not in name and name not in named}  # results of other cases
    spots = [spot for name in every if name not in left_out and (spot := network.place(name)) is not None]
    modules = {one.pattern: one.says for stack in sorted(stacks) for one in bound(stack)}
    inputs = {spot.name: network.inputs(spot, named.__contains__) for spot in spots}
    sources = {name: [one for one in some if one not in left_out] for name, some in inputs.items()}
    others = [one for some in sources.values() for one in some] + [tap.name for tap in verdicts.taps]
    nodes = [_node(name, [], {}) for name in dict.fromkeys(others) if name not in sources]  # inputs; an op's own case
    nodes += [_node(s.name, sources[s.name], {"op": s.op, "Hugging Face": modules.get(s.pattern, "")}) for s in spots]
    return {"label": verdicts.case.name, "graphs": [{"id": verdicts.case.name, "nodes": nodes}]}


def _node(name: str, sources: Sequence[str], attributes: Mapping[str, str]) -> dict[str, Any]:
    group, _, label = name.rpartition(".")
    return {
        "id": name,
        "label": label,
        "namespace": _DOT.sub("/", group),
        "attrs": [{"key": key, "value": value} for key, value in attributes.items() if value],
        "incomingEdges": [
            {"sourceNodeId": source, "sourceNodeOutputId": "0", "targetNodeInputId": str(number)}
            for number, source in enumerate(sources)
        ],
        "outputsMetadata": [{"id": "0", "attrs": [{"key": "tensor_name", "value": name}]}],
    }
