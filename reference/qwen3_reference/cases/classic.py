"""The cases of the classic encoder, as data, and the inputs that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, pb
from qwen3_reference.checkpoints.classic import TINY_POSITIONS, TINY_TOKENS


@dataclass(frozen=True)
class ClassicCase:
    """One case: its checkpoint, and one string for each batch row, its mask slot by slot, 1 = a real token."""

    name: str
    description: str
    seed: int
    checkpoint: str
    rows: tuple[str, ...]
    exposes: tuple[str, ...] = ()


CLASSIC_CASES = (
    ClassicCase(
        "classic/pre_norm",
        "torch's encoder, LayerNorm first, GELU: rows unpadded, left-padded with a hole, nothing visible.",
        2001,
        "classic-pre-norm",
        ("11111", "01011", "00000"),
        exposes=("MSK-06", "MSK-12"),
    ),
    ClassicCase(
        "classic/post_norm",
        "torch's encoder, LayerNorm last, ReLU: rows unpadded, right-padded around a hole.",
        2002,
        "classic-post-norm",
        ("11111", "10110"),
        exposes=("MSK-06",),
    ),
    ClassicCase(
        "classic/bert",
        "Hugging Face's BERT from hidden states on, one row of tiny numbers: rows unpadded and right-padded.",
        2003,
        "classic-bert",
        ("11111", "11100"),
        exposes=("MSK-06",),
    ),
)


def classic_inputs(case: ClassicCase, config: pb.ModelConfig) -> Mapping[str, Array]:
    """The `input.*` tensors of a case by tap name: ids and positions int64, the mask bool, hidden states float32.

    A position is its slot, padding or not; the first rows of the tiny positions hold tiny tokens.
    """
    draw = np.random.Generator(np.random.PCG64(case.seed))
    mask = np.array([[slot == "1" for slot in row] for row in case.rows])
    if config.classic_encoder.starts_with_hidden_states:
        hidden = draw.normal(0.2, 1.0, (*mask.shape, config.hidden_size)).astype(np.float32)
        hidden[0, 1] *= 1e-3
        return {"input.hidden_states": hidden, "input.encoder_attention_mask": mask}
    ids = draw.integers(0, config.vocab_size, mask.shape)
    ids[0, list(TINY_POSITIONS)] = TINY_TOKENS
    ids[:, 2] = ids[:, 1]  # a repeated token
    ids[:, -1] = config.vocab_size - 1
    positions = np.broadcast_to(np.arange(mask.shape[1]), mask.shape).copy()
    return {
        "input.encoder_input_ids": ids,
        "input.encoder_attention_mask": mask,
        "input.encoder_position_ids": positions,
    }
