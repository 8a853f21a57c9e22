"""The cases of training, as data: one step each, with the gradient of every parameter and of each layer's stream."""

from __future__ import annotations

from qwen3_reference.cases.definitions import CaseDefinition

_TAPS = (
    *("input.*", "*cos", "*sin", "*.embed_tokens", "*.layers.*.output", "*.norm", "*logits", "loss"),
    *("gradient.*.attn_residual", "gradient.*.context", "gradient.*.weight", "gradient.*.bias"),
)
"""Sources, streams and results forward; backward the same places, what enters attention, and every parameter."""

TRAINING_CASES = (
    CaseDefinition(
        "training/tied",
        "One matrix for both look-ups and the head; rotated encoder keys; padding on either side of both stacks, "
        "ignored labels, the pad id also as a real token.",
        617,
        encoder="training-tied",
        decoder="training-tied",
        encoder_rows=("1111", "0111"),
        decoder_rows=("11111", "01110"),
        steps=(5,),
        taps=_TAPS,
        training=True,
        exposes=("own/gradient-tied-head", "own/gradient-padding", "own/gradient-encoder-cut", "own/loss-rows"),
    ),
    CaseDefinition(
        "training/untied",
        "A head of its own, biases, a window over the decoder's own past, encoder keys not rotated.",
        52,
        encoder="training-untied",
        decoder="training-untied",
        encoder_rows=("111111", "111100"),
        decoder_rows=("11111", "00111"),
        steps=(5,),
        rotate_encoder_keys=False,
        taps=_TAPS,
        training=True,
        exposes=("own/gradient-memory-cut", "own/gradient-repeat-first", "own/loss-ignored-counted"),
    ),
    CaseDefinition(
        "training/from_labels",
        "The decoder's ids are its labels one slot later, behind a start id; ignored labels stand as the pad id.",
        627,
        encoder="training-tied",
        decoder="training-tied",
        encoder_rows=("1111", "0111"),
        decoder_rows=("11111", "11110"),
        steps=(5,),
        taps=_TAPS,
        training=True,
        decoder_start_token_id=1,
        exposes=("own/labels-not-shifted", "own/labels-shifted-twice"),
    ),
    CaseDefinition(
        "training/causal",
        "A causal Qwen3, trained as Hugging Face's Trainer does, without a cache.",
        56,
        decoder="training-tied",
        decoder_rows=("111111", "111100"),
        steps=(6,),
        taps=_TAPS,
        training=True,
        exposes=("own/gradient-tied-head", "own/loss-shifted-again"),
    ),
)
