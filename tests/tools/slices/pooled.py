"""Texts, a softened tiny model and its goldens of embeddings and scores, padded on either side."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from qwen3_golden import Recording, read
from qwen3_parity.conformance.graph_cases import GraphCase
from qwen3_parity.conformance.graph_inputs import Rows
from qwen3_parity.conformance.run import GOLDEN
from qwen3_parity.recording.any_model import capture_model
from qwen3_reference.graph.tiny import tiny_model
from qwen3_reference.quiet import quiet

LENGTHS = (4, 9, 2, 6, 9, 3, 7, 5)
ROWS = [[10 + (7 * row + 11 * place) % 51 for place in range(length)] for row, length in enumerate(LENGTHS)]
"""Eight texts; no length but the longest twice."""
NO, YES = 23, 37
SOFT = 0.3
"""What a head's weights are multiplied by: scores of 0 and 1 say nothing."""


@cache
def soft_model() -> Any:
    """A tiny causal model whose logits are small."""
    model = tiny_model("qwen3")
    model.lm_head.weight.data *= SOFT
    return model


def goldens(folder: Path) -> dict[tuple[str, str], Recording]:
    """By what it is (embedding, reranker) and side of padding: captured on the left, on the right from that graph."""
    with quiet():
        soft_model().save_pretrained(folder / "checkpoint")
    options: dict[str, dict[str, Any]] = {
        "embedding": {"pool": True, "dimensions": 16},
        "reranker": {"score": f"{NO},{YES}"},
    }
    recordings = {}
    for kind, more in options.items():
        left, right = folder / f"{kind}-left.pb", folder / f"{kind}-right"
        capture_model(str(folder / "checkpoint"), left, ROWS, padding="left", **more)
        GraphCase(left, Rows(LENGTHS, (), "right", few=False), 1).write(right)
        recordings[kind, "left"], recordings[kind, "right"] = (
            read(left, digests=True),
            read(right / GOLDEN, digests=True),
        )
    return recordings
