"""What a case of the reference is made of, and the inputs that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qwen3_golden import Array, pb
from qwen3_reference.checkpoints.sizes import PAD_ID
from qwen3_reference.checkpoints.tiny import TINY_IDS, TWIN_IDS
from qwen3_spec.ops.loss import IGNORED_LABEL

LONG_TAPS = ("input.*", "*.position_ids", "*.inv_freq", "*cos", "*sin", "*.layers.*.output", "*.norm", "logits")
"""What the long cases record: sources and the outputs of layers."""


@dataclass(frozen=True)
class CaseDefinition:
    """One case. `encoder`, `decoder` name checkpoints; an empty one leaves that stack out.

    `encoder_rows`, `decoder_rows` have one string for each batch row, its mask slot by slot. `steps` are the decoder's
    query lengths. Positions count real tokens from `first_position`. `taps` are globs, empty = every tap.
    `max_new_tokens` > 0 also generates, greedily, from the first step's ids. With `generation` ids and `steps` are the
    prompt, and what HF's `generate` chooses follows. `training`: one step over all of the decoder's ids, of which four
    in five that are real have a label; with `decoder_start_token_id` they are those labels, one slot later.
    `inputs_embeds`: hidden states are given in the place of ids. `block`: so they are, and what the first layer makes
    of them is the case. `decoder_mask`: the mask is given whole, a string for each slot with an x for every slot that
    it sees, in all rows of the batch. `rows`: how many of its last query positions each step keeps, 0 = all.
    """

    name: str
    description: str
    seed: int
    encoder: str = ""
    decoder: str = ""
    encoder_rows: tuple[str, ...] = ()
    decoder_rows: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    rotate_encoder_keys: bool = True
    first_position: int = 0
    after: str = ""
    max_new_tokens: int = 0
    generation: pb.Generation | None = None
    dtype: str = "float32"
    tier: pb.Tier = pb.TIER_MODEL
    taps: tuple[str, ...] = ()
    exposes: tuple[str, ...] = ()
    training: bool = False
    decoder_start_token_id: int | None = None
    inputs_embeds: bool = False
    decoder_mask: tuple[str, ...] = ()
    block: bool = False
    rows: int = 0

    @property
    def mode(self) -> pb.Mode:
        """BLOCK, or ENCODER, CAUSAL or ENCODER_DECODER, from the checkpoints."""
        if self.block:
            return pb.BLOCK
        if self.encoder and self.decoder:
            return pb.ENCODER_DECODER
        return pb.ENCODER if self.encoder else pb.CAUSAL


def _ids(draw: np.random.Generator, mask: Array, vocab: int) -> Array:
    """Token ids `[batch, seq]` int64: about a third special (first, last, pad, tiny, twins), repeats, pads padded."""
    special = np.array([0, vocab - 1, PAD_ID, *TINY_IDS, *TWIN_IDS], dtype=np.int64)
    ids = draw.integers(0, vocab, mask.shape)
    ids = np.where(draw.random(mask.shape) < 0.3, draw.choice(special, mask.shape), ids)
    if mask.shape[1] > 3:
        ids[:, 2] = ids[:, 1]  # a repeated token
    return np.where(mask, ids, PAD_ID)


def _hidden_states(draw: np.random.Generator, mask: Array, hidden_size: int) -> Array:
    """`[batch, seq, hidden]` float32: loud and quiet rows, some with a mean, a tiny one, large channels and padding."""
    rows = draw.standard_normal((*mask.shape, hidden_size)) * draw.choice([0.5, 1.0, 2.0], (*mask.shape, 1))
    rows[draw.random(mask.shape) < 0.3] += 0.75
    rows[..., [5, hidden_size - 2]] *= 4.0
    rows[:, 1] *= 2.0**-10
    states: Array = np.where(mask[..., None], rows, rows * 32.0).astype(np.float32)
    return states


def _padding(definition: CaseDefinition, rows: tuple[str, ...]) -> tuple[Array, Array]:
    """Mask and position ids of one stack, each `[batch, seq]`."""
    mask = np.array([[slot == "1" for slot in row] for row in rows])
    counted = np.maximum(np.cumsum(mask, axis=1, dtype=np.int64) - 1, 0)
    return mask, counted + definition.first_position


def inputs(definition: CaseDefinition, vocab: int, hidden_size: int = 0) -> Mapping[str, Array]:
    """The `input.*` tensors of a case by tap name: ids and positions int64, masks bool, hidden states float32.

    `hidden_size` is needed where hidden states are given.
    """
    draw = np.random.Generator(np.random.PCG64(definition.seed))
    tensors: dict[str, Array] = {}
    for stack, rows in (("encoder", definition.encoder_rows), ("decoder", definition.decoder_rows)):
        if rows:
            mask, positions = _padding(definition, rows)
            if definition.inputs_embeds or definition.block:
                tensors[f"input.{stack}_inputs_embeds"] = _hidden_states(draw, mask, hidden_size)
            else:
                tensors[f"input.{stack}_input_ids"] = _ids(draw, mask, vocab)
            tensors[f"input.{stack}_attention_mask"] = mask
            tensors[f"input.{stack}_position_ids"] = positions
    if definition.decoder_mask:
        shown = np.array([[slot == "x" for slot in row] for row in definition.decoder_mask])
        tensors["input.decoder_mask"] = np.repeat(shown[None], len(definition.decoder_rows), axis=0)
    if definition.training:
        real = tensors["input.decoder_attention_mask"]
        counted = real & (draw.random(real.shape) < 0.8)
        tensors["input.labels"] = np.where(counted, draw.integers(0, vocab, real.shape), IGNORED_LABEL)
        if definition.decoder_start_token_id is not None:
            tensors["input.decoder_input_ids"] = shifted(tensors["input.labels"], definition.decoder_start_token_id)
    return tensors


def shifted(labels: Array, start: int) -> Array:
    """The decoder's ids `[batch, seq]` that follow from labels: `start`, then each label one slot late, -100 as pad."""
    ids = np.concatenate([np.full_like(labels[:, :1], start), labels[:, :-1]], axis=1)
    return np.where(ids == IGNORED_LABEL, PAD_ID, ids)
