"""Graphs of transformers models through their messages: the same ops and numbers, equal layers once, kilobytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from detection.families.models import tiny
from qwen3_golden import pb
from qwen3_parity.slices.stored import graph_of
from qwen3_reference.graph.export import exported
from qwen3_reference.graph.layers import in_layers
from qwen3_reference.graph.stored import message_of
from qwen3_spec.graph import Graph

FAMILIES = ("qwen3.Qwen3", "qwen3_moe.Qwen3Moe", "gpt_oss.GptOss", "deepseek_v3.DeepseekV3", "lfm2.Lfm2")
DIFFERENT = {"deepseek_v3.DeepseekV3"}
"""The first of two layers is dense."""


class Logits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


def inputs(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(2, length, dtype=torch.long)
    mask[0, :3] = 0
    return torch.arange(2 * length).reshape(2, length) % 61, mask


@cache
def graph(family: str) -> Graph:
    return exported(Logits(tiny(family)), inputs(9))


@pytest.mark.sample(every=6)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_models_graph_comes_back_and_computes_the_same(family: str) -> None:
    written = graph(family)
    message = message_of(written, "Tiny", "{}")
    read = graph_of(pb.Graph.FromString(message.SerializeToString()), "g.pb")
    ordered, _ = in_layers(written)
    assert (read.nodes, read.taps, read.inputs, read.parameters) == (
        ordered.nodes,
        ordered.taps,
        ordered.inputs,
        ordered.parameters,
    )
    assert message_of(read, "Tiny", "{}") == message
    assert (len(message.block) < len(message.call)) == (family not in DIFFERENT)
    assert message.ByteSize() < 20_000
    arrays = {name: value.numpy() for name, value in zip(written.inputs, inputs(9), strict=True)}
    parameters = Logits(tiny(family)).named_parameters(remove_duplicate=False)
    arrays |= {name: value.detach().numpy() for name, value in parameters}
    results = [each.run(each.leaf_values(arrays))[next(iter(each.taps.values()))] for each in (written, read)]
    np.testing.assert_array_equal(*results)


@pytest.mark.slow  # an export of its own
def test_a_graph_with_free_sizes_keeps_them_and_folds_its_layers() -> None:
    free = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    written = exported(Logits(tiny("qwen3.Qwen3")), inputs(17), (free, free))
    message = message_of(written, "Tiny", "{}")
    read = graph_of(message, "g.pb")
    assert [(call.block, call.layer) for call in message.call] == [(0, ""), (1, "0"), (1, "1"), (2, "")]
    assert read.nodes == in_layers(written)[0].nodes
    assert read.nodes[0].op.startswith("sym_size") and any(None in node.shape for node in read.nodes)
