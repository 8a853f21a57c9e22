"""The op tier: sizes beyond a byte (256 keys), beyond a tile of 1,024 keys, and beyond 16 bits (65,536 ids)."""

from __future__ import annotations

import numpy as np
import torch

from qwen3_reference.cases.op_attention import scores_and_context, softmax_case
from qwen3_reference.cases.op_case import OpCase

_SEED = 7003
_IDS = [[0, 69_999, 255, 256, 65_535], [65_536, 65_537, 4_463, 32_768, 69_999]]
"""Of each power of two that an index may be cut to, the last id below and the first above; 4,463 is 69,999 cut."""


def _embedding() -> OpCase:
    weight = torch.arange(70_000, dtype=torch.float32)[:, None] - 34_999.5
    ids = torch.tensor(_IDS)
    return OpCase(
        "embedding_many_ids",
        "embedding",
        "70,000 rows of one number, each its own: ids around 2^8, 2^15 and 2^16.",
        (ids, weight),
        (torch.nn.functional.embedding(ids, weight),),
        exposes=("EMB-05",),
    )


def large_cases() -> list[OpCase]:
    """Every case of this file; inputs are drawn with PCG64, the same at each call."""
    draw = np.random.Generator(np.random.PCG64(_SEED))
    mask = draw.random((1, 2, 1100)) < 0.9
    products = scores_and_context(draw, "_many_keys", "300 keys.", (1, 4, 2, 6), 2, 300)
    text = "1,100 keys, more than a block of 1,024."
    return [_embedding(), *products, softmax_case(draw, "softmax_1100_keys", text, 2.0, mask)]
