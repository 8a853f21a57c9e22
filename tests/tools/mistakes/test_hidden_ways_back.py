"""Ways back through attention that no tap shows: another derivative in our own model is named by what it makes wrong.

It runs `mistakes.softmax_gradient`, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from wrong_numbers import evidence

from detection.blind import draw
from detection.blind.run import judged
from qwen3_parity.mistakes.softmax_gradient import by_scores

ROWS = {row.name: row for row in draw("first", "second", "third")}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("E084", "gradient.softmax_sum"),
        ("E086", "gradient.rope_not_applied"),
        ("B102", "gradient.norm_weight"),
        ("D156", "gradient.skip_normed"),
    ],
)
def test_a_way_back_that_no_tap_shows_is_named_at_all_its_places(row: str, name: str) -> None:
    (result,) = judged(ROWS[row], ["all"])
    assert result.blamed and {answer.name for answer in result.said} == {name}


def softmax_back(dy: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    return probs * (dy - (probs * dy).sum(-1, keepdim=True))


def test_blocks_of_keys_go_back_by_themselves_as_two_softmaxes_do() -> None:
    random = torch.Generator().manual_seed(3)
    dy, scores = (torch.randn(1, 2, 3, 6, generator=random, dtype=torch.float64) for _ in range(2))
    probs = scores.softmax(-1)
    halves = zip(dy.split(3, -1), scores.split(3, -1), strict=True)
    normed = torch.cat([softmax_back(g, s.softmax(-1)) for g, s in halves], -1)
    parts = zip(dy.split(3, -1), probs.split(3, -1), strict=True)
    plain = torch.cat([softmax_back(g, p) for g, p in parts], -1)
    anywhere = evidence("decoder/plain", "decoder.layers.1.merged_attn.probs").site
    here = replace(anywhere, inputs=(dy.numpy(), probs.numpy()))
    known = {guess.says: guess.compute for guess in by_scores(here) if "blocks of 3 keys" in guess.says}
    for words, expected in (("its own exponentials' and its own sum", normed), ("each with its own sum", plain)):
        (compute,) = (compute for says, compute in known.items() if words in says)
        result = compute(here)
        assert result is not None
        np.testing.assert_allclose(result[0], expected.numpy(), rtol=1e-12, atol=1e-13)
