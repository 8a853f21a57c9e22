"""The cases of the reference, as data. Every row of padding is written out, 1 = a real token."""

from __future__ import annotations

from qwen3_golden import pb
from qwen3_reference.cases.decoder import DECODER_CASES
from qwen3_reference.cases.definitions import LONG_TAPS, CaseDefinition, inputs
from qwen3_reference.cases.generation import GENERATION_CASES
from qwen3_reference.cases.llama import LLAMA_CASES
from qwen3_reference.cases.training import TRAINING_CASES
from qwen3_reference.cases.twins import TWIN_CASES

__all__ = ["CASES", "CaseDefinition", "case", "inputs"]

_FAR = (*LONG_TAPS, "*position_ids", "*.q_rope", "*k_rope", "*.scores")


def _block_taps(stack: str) -> tuple[str, ...]:
    """Those of one layer alone, and the tables that it turns by."""
    tables = (f"{stack}.{name}" for name in ("position_ids", "inv_freq", "cos", "sin"))
    return ("input.*", *tables, f"{stack}.layers.0.*")


CASES = (
    CaseDefinition(
        "encoder/ragged",
        "Rows of a prime length: unpadded, left, both sides with a hole, right with one token, nothing visible.",
        1,
        encoder="tied-encoder",
        encoder_rows=("1111111", "0001111", "0110110", "1000000", "0000000"),
        exposes=("MSK-06", "MSK-12", "POS-01", "NRM-01", "ROP-23", "QKN-02", "GQA-01"),
    ),
    CaseDefinition(
        "encoder/one_token",
        "Length 1: nothing to attend to but itself.",
        2,
        encoder="tied-encoder",
        encoder_rows=("1", "1", "1"),
        exposes=("MSK-19", "SMX-08"),
    ),
    CaseDefinition(
        "encoder/window_odd",
        "A window of 5, length 13 beyond 2 × 5 + 1; as many rows as KV heads.",
        3,
        encoder="window-encoder",
        encoder_rows=("1111111111111", "0000111111111"),
        exposes=("MSK-20", "MSK-21", "MSK-22", "GQA-09", "ROP-26"),
    ),
    CaseDefinition(
        "encoder/window_even",
        "A window of 6, length 17 beyond 2 × 6 + 1 and beyond max_position_embeddings of 16.",
        4,
        encoder="even-window",
        encoder_rows=("11111111111111111",),
        exposes=("MSK-20", "MSK-22", "ROP-15", "ROP-21"),
    ),
    *DECODER_CASES,
    CaseDefinition(
        "encdec/ragged",
        "Rotated encoder keys; encoder longer than the prompt; padding on either side of both stacks; 4 decode steps.",
        9,
        encoder="tied-encoder",
        decoder="tied-decoder",
        encoder_rows=("1111111", "0011111", "1111000"),
        decoder_rows=("11111111", "11011111", "00111111"),
        steps=(4, 1, 1, 1, 1),
        exposes=("MRG-01", "MRG-05", "MRG-09", "MRG-11", "POS-11", "KVC-02", "FNL-02"),
    ),
    CaseDefinition(
        "encdec/unrotated",
        "Encoder keys not rotated; equal lengths with different padding (6 = heads); the prompt in two chunks of 3.",
        10,
        encoder="tied-encoder",
        decoder="tied-decoder",
        encoder_rows=("111111", "111100"),
        decoder_rows=("11111111", "01111111"),
        steps=(3, 3, 1, 1),
        rotate_encoder_keys=False,
        exposes=("MRG-07", "MRG-13", "POS-11", "ROP-26"),
    ),
    CaseDefinition(
        "encdec/window",
        "Merged attention with a window of 5 over the decoder's own past; the encoder, longer, is seen whole; "
        "a row whose encoder is empty; untied head.",
        11,
        encoder="window-encoder",
        decoder="window-decoder",
        encoder_rows=("11111111111", "00000000000"),
        decoder_rows=("11111111111", "01111111111"),
        steps=(7, 1, 1, 1, 1),
        exposes=("MSK-12", "MSK-13", "MSK-25", "KVC-09", "MRG-06", "MRG-08"),
    ),
    CaseDefinition(
        "encdec/qwen2",
        "Qwen2: biases on q, k and v, no QK-norm; untied; square projections, intermediate = hidden, equal lengths.",
        12,
        encoder="qwen2-encoder",
        decoder="qwen2-decoder",
        encoder_rows=("11111", "01111", "11100"),
        decoder_rows=("11111", "00111", "11111"),
        steps=(3, 1, 1),
        exposes=("PRJ-06", "PRJ-07", "CFG-10", "WLD-02", "MLP-08"),
    ),
    CaseDefinition(
        "encdec/second_request",
        "After another request on the same object: its lengths again with other padding, other texts, and generation.",
        137,
        encoder="window-encoder",
        decoder="window-decoder",
        encoder_rows=("00011111111", "11110000000"),
        decoder_rows=("11101111111", "00001111111"),
        steps=(7, 1, 1, 1, 1),
        after="encdec/window",
        max_new_tokens=12,
        exposes=("KVC-02", "KVC-16", "MRG-12"),
    ),
    CaseDefinition(
        "encdec/shorter_request",
        "After a longer request on the same object: fewer slots of both stacks, as many of neither, and other padding.",
        2031,
        encoder="qwen2-encoder",
        decoder="qwen2-decoder",
        encoder_rows=("1111", "0011", "1110"),
        decoder_rows=("111", "011", "111"),
        steps=(2, 1),
        after="encdec/qwen2",
        exposes=("KVC-02", "MRG-12"),
    ),
    CaseDefinition(
        "encdec/bfloat16",
        "One bfloat16 checkpoint in both roles, run in bfloat16, at positions above 256.",
        14,
        encoder="bfloat16",
        decoder="bfloat16",
        encoder_rows=("11111", "00111"),
        decoder_rows=("111111", "011111"),
        steps=(3, 1, 1, 1),
        dtype="bfloat16",
        first_position=300,
        exposes=("NRM-04", "ROP-16", "ROP-17"),
    ),
    CaseDefinition(
        "encdec/unpadded",
        "Several rows and no padding, so that masks may be left out; the pad id is an ordinary token; Qwen3 with "
        "biases on q, k, v and o, a window and dropout that are switched off.",
        425,
        encoder="biased",
        decoder="biased",
        encoder_rows=("11111", "11111"),
        decoder_rows=("11111", "11111"),
        steps=(3, 1, 1),
        exposes=("MSK-06", "MSK-30", "PRJ-06", "CFG-05", "SMX-09"),
    ),
    CaseDefinition(
        "long/deep",
        "12 layers, 129 tokens in steps of 65, 63 and 1: across the tile edges 63, 64, 65 and 129.",
        15,
        decoder="deep",
        decoder_rows=("1" * 129,),
        steps=(65, 63, 1),
        tier=pb.TIER_LONG,
        taps=LONG_TAPS,
        exposes=("RES-06", "NRM-12", "WLD-19", "KVC-04", "SMX-08"),
    ),
    CaseDefinition(
        "long/last_rows",
        "Of each step the last two positions alone are recorded: of a prompt of 4, a chunk of 3, two steps of one.",
        21,
        decoder="tied-decoder",
        decoder_rows=("111111111", "001111111"),
        steps=(4, 3, 1, 1),
        tier=pb.TIER_LONG,
        taps=(*_FAR, "*.mask", "*.context", "*.v_proj"),
        rows=2,
        exposes=("KVC-05", "MSK-16", "POS-04"),
    ),
    CaseDefinition(
        "long/encoder_129",
        "129 tokens through an encoder with windows, the last 2 of them padding.",
        16,
        encoder="window-encoder",
        encoder_rows=("1" * 127 + "00",),
        tier=pb.TIER_LONG,
        taps=LONG_TAPS,
        exposes=("MSK-26", "SMX-08"),
    ),
    CaseDefinition(
        "long/position_4096",
        "Both stacks at positions 4096 and on.",
        17,
        encoder="tied-encoder",
        decoder="tied-decoder",
        encoder_rows=("11111", "01111"),
        decoder_rows=("1111", "0111"),
        steps=(3, 1),
        first_position=4096,
        tier=pb.TIER_LONG,
        taps=_FAR,
        exposes=("ROP-07", "ROP-21", "POS-11"),
    ),
    CaseDefinition(
        "long/position_32768",
        "A causal Qwen3 at positions 32768 and on.",
        18,
        decoder="tied-decoder",
        decoder_rows=("11111", "01111"),
        steps=(4, 1),
        first_position=32768,
        tier=pb.TIER_LONG,
        taps=_FAR,
        exposes=("ROP-07", "ROP-21", "ROP-31"),
    ),
    CaseDefinition(
        "block/causal",
        "The first layer of a causal Qwen3 alone: one sequence of hidden states, no padding, prefill and 2 steps.",
        41,
        decoder="tied-decoder",
        decoder_rows=("1111111",),
        steps=(5, 1, 1),
        taps=_block_taps("decoder"),
        block=True,
        exposes=("NRM-01", "QKN-01", "ROP-01", "GQA-01", "MSK-01", "KVC-05", "RES-01"),
    ),
    CaseDefinition(
        "block/bidirectional",
        "The first layer of the encoder alone: two sequences of hidden states of equal length.",
        42,
        encoder="tied-encoder",
        encoder_rows=("1111111", "1111111"),
        taps=_block_taps("encoder"),
        block=True,
        exposes=("NRM-01", "QKN-01", "ROP-01", "GQA-01", "MSK-06", "PRJ-05", "RES-01"),
    ),
    *TWIN_CASES,
    *GENERATION_CASES,
    *TRAINING_CASES,
    *LLAMA_CASES,
)


def case(name: str) -> CaseDefinition:
    """The case of a name; raises `KeyError` when there is none."""
    return {definition.name: definition for definition in CASES}[name]
