"""The cases of one layer alone, as data: hidden states in, what the first layer makes of them out."""

from __future__ import annotations

from qwen3_reference.cases.definitions import CaseDefinition


def _taps(stack: str) -> tuple[str, ...]:
    """The layer's own, and the tables that it turns by."""
    tables = (f"{stack}.{name}" for name in ("position_ids", "inv_freq", "cos", "sin"))
    return ("input.*", *tables, f"{stack}.layers.0.*")


BLOCK_CASES = (
    CaseDefinition(
        "block/causal",
        "The first layer of a causal Qwen3 alone: one sequence of hidden states, no padding, prefill and 2 steps.",
        41,
        decoder="tied-decoder",
        decoder_rows=("1111111",),
        steps=(5, 1, 1),
        taps=_taps("decoder"),
        block=True,
        exposes=("NRM-01", "QKN-01", "ROP-01", "GQA-01", "MSK-01", "KVC-05", "RES-01"),
    ),
    CaseDefinition(
        "block/bidirectional",
        "The first layer of the encoder alone: two sequences of hidden states of equal length.",
        42,
        encoder="tied-encoder",
        encoder_rows=("1111111", "1111111"),
        taps=_taps("encoder"),
        block=True,
        exposes=("NRM-01", "QKN-01", "ROP-01", "GQA-01", "MSK-06", "PRJ-05", "RES-01"),
    ),
)
