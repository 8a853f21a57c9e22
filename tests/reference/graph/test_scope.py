"""Which cells of a tap count: real tokens, of the stack that the tap belongs to."""

from __future__ import annotations

import numpy as np
import pytest

from qwen3_golden import Array, Recording, pb, tensor
from qwen3_golden.recording import plain_provenance
from qwen3_reference.graph.scope import counted

MASK = np.asarray([[0, 1, 1, 1], [1, 1, 1, 1]])


def golden(steps: list[int], **inputs: Array) -> Recording:
    tensors = [tensor(f"input.{name}", array, axes=("batch", "query"), op="input") for name, array in inputs.items()]
    case = pb.Case(name="x", mode=pb.GRAPH, steps=steps)
    return Recording(case, plain_provenance("qwen3_reference"), pb.Run(), tensors)


def counts(recording: Recording, name: str, shape: tuple[int, ...], axes: tuple[str, ...], step: int = 0) -> Array:
    return counted(tensor(name, np.zeros(shape), step=step, axes=axes), recording)


def test_a_step_counts_its_own_positions_and_keys_up_to_its_end() -> None:
    case = golden([3, 1], input_ids=MASK, attention_mask=MASK)
    assert counts(case, "model", (2, 3), ("batch", "query")).tolist() == [[False, True, True], [True] * 3]
    assert counts(case, "model", (2, 1), ("batch", "query"), 1).all()
    assert counts(case, "probs", (2, 4), ("batch", "key"), 1).tolist() == [[False, True, True, True], [True] * 4]
    assert counts(case, "gate", (6, 5), ("row", "channel"))[:, 0].tolist() == [False, True, True, True, True, True]


@pytest.mark.parametrize("length", [2, 4])
def test_an_encoders_padding_is_the_encoders_whatever_the_decoders_length_is(length: int) -> None:
    ids = np.ones((2, length), np.int64)
    case = golden([length], input_ids=MASK, attention_mask=MASK, decoder_input_ids=ids)
    shape = (2, 4)
    assert counts(case, "encoder.layers.0", shape, ("batch", "query")).tolist() == MASK.astype(bool).tolist()
    assert counts(case, "decoder.layers.0", (2, length), ("batch", "query")).all()


def test_without_a_mask_everything_counts_and_rerouted_tokens_do_not() -> None:
    case = golden([4], input_ids=MASK)
    assert counts(case, "model", (2, 4), ("batch", "query")).all()
    moved = {0: np.asarray([[False, False, True, True], [False] * 4])}
    item = tensor("model", np.zeros((2, 4)), axes=("batch", "query"))
    assert counted(item, case, moved).tolist() == [[True, True, False, False], [True] * 4]
