"""The floor of a loss, which is a sum of logits."""

from __future__ import annotations

from qwen3_golden import pb


def with_loss(floors: dict[tuple[str, int], pb.Floor]) -> dict[tuple[str, int], pb.Floor]:
    """The same, with the floor of the loss no less than the largest of a logit.

    It is a sum of logits less their log-sum-exp, and one number: how far it went in one run is luck.
    """
    least = max((floor.max for (name, _), floor in floors.items() if name == "logits"), default=0.0)
    for (name, _), floor in floors.items():
        if name == "loss":
            floor.rms, floor.max, floor.row = (max(number, least) for number in (floor.rms, floor.max, floor.row))
    return floors
