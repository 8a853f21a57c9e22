"""What holds of a case of mode GRAPH, whose network is the graph that its golden carries."""

from __future__ import annotations

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError

REFERENCE = "qwen3_reference"
"""The producer of goldens. What others record of a golden's case need not repeat its graph."""
MODEL = "model"
"""The role of the checkpoint of such a case."""


def check_graph_case(where: object, case: pb.Case, graph: pb.Graph | None, producer: str) -> None:
    """A golden of mode GRAPH has a graph, no other mode has one, and the case says its steps, or `ParityError`."""

    def refuse(rule: str, expected: object, got: object) -> ParityError:
        next_step = "capture the case again, or correct what wrote it"
        return ParityError(where, rule, expected=expected, got=got, next_step=next_step)

    mode = pb.Mode.Name(case.mode)
    if case.mode != pb.GRAPH:
        raise refuse("a graph stands in a case of another mode", "mode GRAPH", mode)
    if graph is None and producer == REFERENCE:
        raise refuse("a golden of mode GRAPH has no graph", "the graph of its model", "none")
    if case.HasField("config"):
        raise refuse("a case of mode GRAPH has a config", "the graph's own config.json", case.config.model_type)
    if not case.steps or 0 in case.steps:
        raise refuse("a case of mode GRAPH does not say its steps", "a query length for each forward", list(case.steps))
    roles = [checkpoint.role for checkpoint in case.checkpoint]
    if roles not in ([], [MODEL]):
        rule = "the checkpoints of a case of mode GRAPH are not its model's"
        raise refuse(rule, f"one of role {MODEL!r}, or none", ", ".join(map(ascii, roles)))
    last = max((tap.step for tap in graph.tap), default=0) if graph is not None else 0
    if last >= len(case.steps):
        raise refuse(
            "a tap of the graph is of a step that the case does not have", f"steps below {len(case.steps)}", last
        )
