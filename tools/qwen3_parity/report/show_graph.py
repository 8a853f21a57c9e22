"""What a golden's graph holds, for a person and for a program."""

from __future__ import annotations

from typing import Any

from qwen3_golden import Recording, pb
from qwen3_parity.slices.plain import shown
from qwen3_parity.slices.stored import graph_of


def graph_numbers(recording: Recording) -> dict[str, Any]:
    """The graph's architecture and sizes; empty for a recording without one. Raises `ParityError` as `graph_of`."""
    message = recording.graph
    if recording.case.mode != pb.GRAPH or not message.ByteSize():
        return {}
    graph = graph_of(message, recording.source)
    return {
        "architecture": shown(message.architecture),
        "nodes": len(graph.nodes),
        "ops": len({node.op for node in graph.nodes}),
        "lines": len(message.line),
        "stored_nodes": sum(len(block.node) for block in message.block),
        "blocks": len(message.block),
        "calls": len(message.call),
        "bytes": message.ByteSize(),
        "inputs": list(graph.inputs),
        "parameters": len(graph.parameters),
        "taps": len(graph.taps),
    }


def graph_line(recording: Recording) -> str:
    """`graph_numbers` in a line; empty for a recording without a graph."""
    if not (it := graph_numbers(recording)):
        return ""
    stored = f"{it['stored_nodes']} stored in {it['blocks']} blocks, {it['calls']} calls, {it['bytes']} bytes"
    made = f"{it['nodes']} nodes of {it['ops']} ops on {it['lines']} lines ({stored})"
    of = f"of {', '.join(it['inputs'])} and {it['parameters']} parameters"
    return f"graph of {it['architecture']}: {made}, {of}; {it['taps']} taps"
