"""A convolution that reads other inputs is told, and copies that are tiled where each is repeated, or the reverse.

It runs `grammar.convolutions` and `grammar.repeats`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_recurrences import honest
from torch import nn

from qwen3_golden import Array, read
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.edits.grammar.convolutions import convolutions
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_reference.graph.capture import capture
from qwen3_reference.graph.tiny import tiny_model


def convolved() -> tuple[Region, Array, Array]:
    """The region that ends with the first convolution, what that reads, and its weight."""
    run = honest()
    first = len(run.graph.leaves)
    value = next(at for at, node in enumerate(run.graph.nodes, first) if node.op.startswith("conv1d."))
    region = Region(run, value, ("model.layers.0.linear_attn.norm", 0))
    x, weight = (np.asarray(region.base[read]) for read in run.graph.nodes[value - first].reads[:2])
    return region, x, weight


SAID = {
    "reads inputs of conv1d that stand 2 apart, not 1 (its dilation)": (2, 6, 3),
    "pads conv1d at the end, not at the beginning: it reads what is ahead": (1, 0, 6),
}
"""By what is said the dilation, and how many zeros stand before and behind."""


@pytest.mark.parametrize("says", SAID)
def test_a_convolution_that_reads_other_inputs(says: str) -> None:
    region, x, weight = convolved()
    (edit,) = (edit for edit in convolutions(region) if edit.says == says)
    dilation, before, behind = SAID[says]
    padded = nn.functional.pad(torch.from_numpy(x), (before, behind))
    count = np.shape(region.base[region.value])[-1]
    result = nn.functional.conv1d(padded, torch.from_numpy(weight), dilation=dilation, groups=len(weight))
    np.testing.assert_allclose(region.edited(edit), result.numpy()[..., :count], rtol=1e-9, atol=1e-12)


class Copies(nn.Module):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.repeat(1, 1, 3)


class Streams(nn.Module):
    """A model whose last states are copied."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.copies = tiny_model("qwen3").model, Copies()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return {"streams": self.copies(hidden)}


@pytest.mark.slow  # an export of its own
def test_numbers_that_are_repeated_each_in_its_place_where_the_copies_are_tiled(tmp_path: Path) -> None:
    model = Streams().eval().requires_grad_(False)
    ids = torch.arange(11, 21).reshape(2, 5)
    capture(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, tmp_path / "g.pb")
    golden = read(tmp_path / "g.pb", digests=True)
    hidden = golden["encoder.norm", 0].values()
    wrong = np.repeat(hidden, 3, -1)
    tensors = [replace(x, array=wrong) if x.info.name == "copies" else x for x in golden if x.info.name != "streams"]
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    fault, *_ = diagnose(golden, replace(golden, tensors=tensors), weights, partial=True).faults
    says = "repeats each in its place, where the copies are tiled, at test_convolutions.py:"
    assert fault.explanations[0].name == "edit.repeated" and fault.explanations[0].says.startswith(says)
