"""The committed inputs hide nothing: rows that differ, padding on every side, special ids, steps that go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pb, read
from qwen3_reference.cases.models import MODEL_CASES
from qwen3_reference.checkpoints.classic_configs import is_classic
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.stored import read_directory
from qwen3_reference.checkpoints.tiny import PAD_ID

Networks = dict[str, Recording]
STACKS = ("encoder", "decoder")


def inputs(recording: Recording, stack: str) -> tuple[Array, Array] | None:
    """Ids and padding mask `[batch, seq]` of a stack that the case has."""
    ids, mask = (recording.get(f"input.{stack}_{name}") for name in ("input_ids", "attention_mask"))
    return None if ids is None or mask is None else (ids.array, mask.array)


def all_inputs(networks: Networks) -> list[tuple[str, str, Array, Array]]:
    sides = [(name, stack, inputs(recording, stack)) for name, recording in networks.items() for stack in STACKS]
    return [(name, stack, *pair) for name, stack, pair in sides if pair is not None]


def equal_rows(recording: Recording) -> list[tuple[str, int, int]]:
    """Pairs of batch rows of a stack with the same ids among their real tokens, rows of padding alone left out."""
    pairs = []
    for stack in STACKS:
        arrays = inputs(recording, stack)
        if arrays is None:
            continue
        rows = [ids[mask].tolist() for ids, mask in zip(*arrays, strict=True)]
        pairs += [(stack, i, j) for i, j in combinations(range(len(rows)), 2) if rows[i] == rows[j] and rows[i]]
    return pairs


def test_har_09_no_two_rows_of_a_case_are_equal(networks: Networks) -> None:
    assert {name: equal_rows(recording) for name, recording in networks.items() if equal_rows(recording)} == {}


def test_har_09_a_batch_expanded_from_one_row_would_be_noticed(networks: Networks) -> None:
    def expanded(item: Tensor) -> Tensor:
        rows = item.array[:1]
        return Tensor(item.info, np.repeat(rows, len(item.array), axis=0)) if item.info.name[:6] == "input." else item

    recording = networks["encdec/ragged"]
    same = replace(recording, tensors=[expanded(item) for item in recording])
    assert len(equal_rows(same)) == 6


@pytest.mark.parametrize("stack", STACKS)
def test_har_09_rows_of_different_lengths_and_paddings_stand_in_one_batch(networks: Networks, stack: str) -> None:
    masks = [mask for _, which, _, mask in all_inputs(networks) if which == stack and len(mask) >= 3]
    assert any(len({tuple(row) for row in mask.tolist()}) >= 3 for mask in masks)
    assert any(len(set(mask.sum(axis=1).tolist())) >= 3 for mask in masks)


def has_gap(row: Array) -> bool:
    real = np.flatnonzero(row)
    return bool(real.size and real[-1] - real[0] + 1 > real.size)


PADDINGS: dict[str, Callable[[Array], bool]] = {
    "none": lambda row: bool(row.all()),
    "left": lambda row: not row[0] and bool(row[-1]),
    "right": lambda row: bool(row[0]) and not row[-1],
    "both sides": lambda row: bool(row.any()) and not row[0] and not row[-1],
    "a hole": has_gap,
    "one token": lambda row: int(row.sum()) == 1,
    "nothing but padding": lambda row: not row.any(),
}


@pytest.mark.parametrize("padding", PADDINGS)
def test_har_21_every_kind_of_padding_is_in_some_case(networks: Networks, padding: str) -> None:
    rows = [row for *_, mask in all_inputs(networks) for row in mask]
    assert any(PADDINGS[padding](row) for row in rows)


def vocabulary(networks: Networks, name: str) -> int:
    return networks[name].case.config.vocab_size


IDS: dict[str, Callable[[Array, int], bool]] = {
    "the first id": lambda real, vocab: 0 in real,
    "the last id": lambda real, vocab: vocab - 1 in real,
    "a pad inside the text": lambda real, vocab: PAD_ID in real,
    "a repeated id": lambda real, vocab: len(np.unique(real)) < len(real),
    "ids of no special kind": lambda real, vocab: len(np.unique(real)) > 3,
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("stack", STACKS)
def test_har_21_every_kind_of_id_is_among_the_real_tokens_of_some_case(
    networks: Networks, stack: str, kind: str
) -> None:
    real = [
        (ids[mask], vocabulary(networks, name)) for name, which, ids, mask in all_inputs(networks) if which == stack
    ]
    assert any(IDS[kind](tokens, vocab) for tokens, vocab in real)


def test_har_21_random_ids_of_full_rows_would_be_noticed() -> None:
    ids = np.random.Generator(np.random.PCG64(0)).permutation(np.arange(30, 190))[:20]
    shown = {kind for kind in IDS if IDS[kind](ids, 211)}
    assert shown == {"ids of no special kind"}
    assert {kind for kind in PADDINGS if PADDINGS[kind](np.ones(20, bool))} == {"none"}


def made_of_labels(recording: Recording) -> bool:
    """Whether the decoder's ids are its labels, one further: the last label stands in the slot behind the text."""
    return recording.case.training.HasField("decoder_start_token_id")


MODELS = {case.checkpoint for case in MODEL_CASES}
"""Checkpoints of models that their own graph describes; of these the pad id is 0."""


def test_har_21_padding_of_other_models_is_large_too() -> None:
    for case in MODEL_CASES:
        stored = read_directory(GOLDEN_ROOT / "checkpoints" / case.checkpoint)
        size = np.square(stored["model.embed_tokens.weight"].float32()).mean(axis=1)
        assert size[0] > 2 * np.median(size), case.checkpoint
        golden = read(GOLDEN_ROOT / "cases" / f"{case.name}.pb")
        ids, mask = (golden[f"input.{name}", 0].array for name in ("input_ids", "attention_mask"))
        assert (ids[mask == 0] == 0).all() and (mask == 0).any()


def test_har_21_a_padded_slot_holds_the_pad_id_whose_embedding_is_large(networks: Networks) -> None:
    pairs = [(ids, mask) for name, _, ids, mask in all_inputs(networks) if not made_of_labels(networks[name])]
    assert all((ids[~mask] == PAD_ID).all() for ids, mask in pairs)
    for directory in sorted((GOLDEN_ROOT / "checkpoints").iterdir()):
        if is_classic(directory) or directory.name in MODELS:
            continue
        size = np.square(read_directory(directory)["model.embed_tokens.weight"].float32()).mean(axis=1)
        assert size[PAD_ID] > 2 * np.median(size), directory.name
        assert model_config(directory).vocab_size == len(size)


def test_har_21_lengths_are_1_odd_primes_window_edges_and_tile_edges(networks: Networks) -> None:
    lengths = {mask.shape[1] for *_, mask in all_inputs(networks)}
    assert {1, 7, 13, 17, 129} <= lengths
    ends = {int(end) for recording in networks.values() for end in np.cumsum(recording.case.steps)}
    assert {5, 6, 7, 65, 128, 129} <= ends  # W - 1, W, W + 1 for W = 6; around 64 and 128


def test_har_10_decoding_goes_on_for_three_steps_and_more_in_each_kind_of_decoder(networks: Networks) -> None:
    by_mode = {
        mode: [len(recording.case.steps) for recording in networks.values() if recording.case.mode == mode]
        for mode in pb.Mode.values()
    }
    assert sorted(by_mode[pb.CAUSAL])[-2] >= 5
    assert sorted(by_mode[pb.ENCODER_DECODER])[-2] >= 5


def test_har_10_cache_contents_are_recorded_at_every_step_not_their_growth(networks: Networks) -> None:
    for name in ("encdec/ragged", "encdec/window", "decoder/window_chunks"):
        recording = networks[name]
        ends = np.cumsum(recording.case.steps)
        for step, end in enumerate(ends):
            for layer in range(recording.case.config.num_hidden_layers):
                keys = recording[f"decoder.layers.{layer}.merged_attn.cache_keys", step]
                assert keys.array.shape[2] == end
