"""What an axis of a tap counts follows from how it grows with the batch and with the length."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from qwen3_reference.graph.axes import axes_of, in_order, shapes_of

BATCH, LENGTH = 2, 7


def shape(batch: int, length: int, kind: str) -> tuple[int, ...]:
    """A shape by letters: batch, query, key, row, batch times heads, a number."""
    sizes = {
        "b": batch,
        "q": length,
        "k": length,
        "r": batch * length,
        "h": 3 * batch,
        "e": 4 * batch * length,
        "7": 7,
        "2": 2,
    }
    return tuple(sizes[letter] for letter in kind)


@pytest.mark.parametrize(
    ("name", "kind", "axes"),
    [
        ("mlp", "bq7", ["batch", "query", "channel"]),
        ("self_attn.probs", "b2qk", ["batch", "channel", "query", "key"]),
        ("self_attn.key", "b2k7", ["batch", "channel", "key", "channel"]),
        ("cache.0.values", "b2k7", ["batch", "channel", "key", "channel"]),
        ("mlp.gate", "r7", ["row", "channel"]),
        ("alibi", "h7q", ["channel", "channel", "query"]),
        ("input.attention_mask", "bk", ["batch", "key"]),
        ("cache.1.recurrent_states", "b227", ["batch", "channel", "channel", "channel"]),
        ("rotary_emb.inv_freq", "7", ["channel"]),
    ],
)
def test_axes_of_a_first_step_have_their_names(name: str, kind: str, axes: list[str]) -> None:
    runs = [{(name, 0): shape(*sizes, kind)} for sizes in ((BATCH, LENGTH), (BATCH + 1, LENGTH), (BATCH, LENGTH + 1))]
    assert axes_of(runs[0], runs[1], runs[2], BATCH, frozenset({LENGTH}))[name, 0] == axes


def test_a_later_step_has_the_axes_of_the_first_and_its_own_past_is_keys() -> None:
    runs = [
        {("probs", 0): (batch, length, length), ("probs", 1): (batch, 1, length + 1), ("late", 1): (batch, length + 1)}
        for batch, length in ((2, 7), (3, 7), (2, 8))
    ]
    axes = axes_of(runs[0], runs[1], runs[2], 2, frozenset({7}))
    assert axes["probs", 1] == axes["probs", 0] == ["batch", "query", "key"]
    assert axes["late", 1] == ["batch", "key"]


def test_a_tap_that_is_not_in_every_run_has_channels_alone() -> None:
    assert axes_of({("some", 0): (2, 7)}, {}, {}, 2, frozenset({7}))["some", 0] == ["channel", "channel"]


@pytest.mark.parametrize(
    ("axis", "rows"),
    [
        ("copied_row", lambda x: torch.cat([x.flatten(0, 1) * expert for expert in (1, 2, 3)])),
        ("split_row", lambda x: x.flatten(0, 1).unflatten(-1, (3, 2)).flatten(0, 1)),
        ("channel", lambda x: x.flatten(0, 1).unflatten(-1, (3, 2)).transpose(0, 1).flatten(0, 1).flip(0)),
    ],
)
def test_positions_that_stand_several_times_are_called_by_their_order(
    axis: str, rows: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    x = torch.linspace(-1, 1, 3 * 8 * 6).sin().reshape(3, 8, 6)
    runs = [{("experts", 0): rows(part)} for part in (x[1:, 1:], x[:, 1:], x[1:])]
    axes = axes_of(*(shapes_of(run) for run in runs), BATCH, frozenset({LENGTH}))
    assert in_order(axes, runs[0], runs[1], BATCH, frozenset({LENGTH}))["experts", 0][0] == axis
