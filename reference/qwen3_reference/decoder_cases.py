"""The cases of a causal Qwen3 alone, as data."""

from __future__ import annotations

from qwen3_reference.definitions import CaseDefinition

DECODER_CASES = (
    CaseDefinition(
        "decoder/plain",
        "A causal Qwen3 at its plainest: one sequence, no padding, no window, plain RoPE, prefill and 4 decode steps.",
        27,
        decoder="tied-decoder",
        decoder_rows=("111111111",),
        steps=(5, 1, 1, 1, 1),
        exposes=("ROP-01", "GQA-01", "MSK-01", "POS-04", "KVC-05", "KVC-06"),
    ),
    CaseDefinition(
        "decoder/plain_two_rows",
        "As decoder/plain, of two sequences of equal length.",
        33,
        decoder="tied-decoder",
        decoder_rows=("111111111", "111111111"),
        steps=(5, 1, 1, 1, 1),
        exposes=("MSK-30", "PRJ-05", "KVC-04"),
    ),
    CaseDefinition(
        "decoder/ragged_decode",
        "A causal Qwen3: prompts unpadded, right-padded (pads stay in the cache) and left-padded, then 4 decode steps.",
        5,
        decoder="tied-decoder",
        decoder_rows=("111111111", "110001111", "001111111"),
        steps=(5, 1, 1, 1, 1),
        exposes=("POS-02", "POS-09", "POS-10", "MSK-16", "KVC-13"),
    ),
    CaseDefinition(
        "decoder/window_chunks",
        "A window of 5, the prompt in chunks of 3, decoding past 2 × 5; untied head.",
        6,
        decoder="window-decoder",
        decoder_rows=("1111111111111", "0011111111111"),
        steps=(3, 3, 3, 1, 1, 1, 1),
        exposes=("MSK-23", "KVC-08", "KVC-10", "POS-10", "HED-01", "HED-04"),
    ),
    CaseDefinition(
        "decoder/window_even",
        "A window of 6 met from a prompt of 5: W - 1, W, W + 1 keys and on; window set by max_window_layers.",
        7,
        decoder="even-window",
        decoder_rows=("1111111111", "0111111111"),
        steps=(5, 1, 1, 1, 2),
        exposes=("MSK-22", "MSK-24", "KVC-08"),
    ),
    CaseDefinition(
        "decoder/generation",
        "Greedy generation of a causal Qwen3 from unpadded and left-padded prompts of length 2.",
        70,
        decoder="window-decoder",
        decoder_rows=("11", "01"),
        steps=(2,),
        max_new_tokens=12,
        exposes=("POS-09", "POS-10", "KVC-16"),
    ),
    CaseDefinition(
        "decoder/yarn_stated",
        "YaRN far beyond the original length, every number of it stated and none the default.",
        19,
        decoder="yarn-stated",
        decoder_rows=("11111", "01111"),
        steps=(4, 1),
        first_position=15000,
        exposes=("ROP-09", "ROP-10", "ROP-12", "ROP-13", "CFG-09"),
    ),
    CaseDefinition(
        "decoder/yarn_mscale",
        "YaRN whose attention factor follows from mscale and mscale_all_dim.",
        20,
        decoder="yarn-mscale",
        decoder_rows=("11111", "01111"),
        steps=(4, 1),
        first_position=15000,
        exposes=("ROP-09", "ROP-10", "ROP-14"),
    ),
)
