"""A result that was recorded under another name: taps that are one value of a golden's graph are each other."""

from __future__ import annotations

from dataclasses import replace

from qwen3_golden import Recording, Tensor, pb
from qwen3_reference.graph.words import RESULTS


def with_results(candidate: Recording, golden: Recording) -> Recording:
    """A candidate with the results that it has under the name of a module, as `logits` as `lm_head`."""
    values = {(tap.name, tap.step): tap.value for tap in golden.graph.tap}
    there = {values[item.key]: item for item in candidate if item.key in values}
    added = list[Tensor]()
    for item in golden:
        same = there.get(values.get(item.key, -1))
        if item.info.name in RESULTS and item.key not in candidate and same is not None:
            info = pb.Tensor()
            info.CopyFrom(same.info)
            info.name = item.info.name
            added.append(Tensor(info, same.array))
    return replace(candidate, tensors=[*candidate.tensors, *added]) if added else candidate
