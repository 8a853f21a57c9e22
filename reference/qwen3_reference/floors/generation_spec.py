"""The floors of scores and losses, which are sums of logits."""

from __future__ import annotations

from qwen3_golden import pb

_SCORES = ("beam_scores", "sequences_scores", "loss")


def with_scores(floors: dict[tuple[str, int], pb.Floor]) -> dict[tuple[str, int], pb.Floor]:
    """The same, with the floors of scores and losses no less than the largest of a logit.

    They are sums of logits less their log-sum-exp, and a handful of numbers: how far they went in one run is luck.
    """
    least = max((floor.max for (name, _), floor in floors.items() if name == "logits"), default=0.0)
    for (name, _), floor in floors.items():
        if name in _SCORES:
            floor.rms, floor.max, floor.row = (max(one, least) for one in (floor.rms, floor.max, floor.row))
    return floors
