"""Taps of a model's run: every module's output under its path, and what attention gets and gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers.modeling_utils import AttentionInterface

from qwen3_reference.graph.sizes import family, small
from qwen3_reference.graph.taps import Taps, watched
from qwen3_reference.graph.tiny import tiny_model


class Twice(nn.Module):
    """A part that runs twice, one that gives several values, one that never runs, a list, and a change in place."""

    def __init__(self) -> None:
        super().__init__()
        self.again, self.never = nn.Linear(3, 3), nn.Linear(3, 3)
        self.several = Several()
        self.listed = nn.ModuleList([nn.Identity()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.again(self.again(x))
        x = self.several(x)[2]
        return self.listed[0](x).add_(1)  # type: ignore[no-any-return]


class Several(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x, None, x * 2


@pytest.fixture
def seen() -> dict[tuple[str, int], torch.Tensor]:
    taps, module = Taps(), Twice()
    with torch.no_grad(), watched(module, taps):
        module(torch.ones(1, 3))
        taps.begin(1)
        module(torch.ones(1, 3))
    return taps.values


def test_a_module_that_runs_twice_has_two_taps_in_each_step(seen: dict[tuple[str, int], torch.Tensor]) -> None:
    names = ["again", "again#2", "several", "several[2]", "listed.0"]
    assert list(seen) == [(name, step) for step in (0, 1) for name in names]


def test_a_tap_keeps_its_numbers_when_the_model_changes_them_in_place(
    seen: dict[tuple[str, int], torch.Tensor],
) -> None:
    torch.testing.assert_close(seen["listed.0", 0], seen["several[2]", 0], rtol=0, atol=0)
    torch.testing.assert_close(seen["several[2]", 0], 2 * seen["again#2", 0], rtol=0, atol=0)


def test_attention_shows_what_it_gets_and_gives_with_its_key_heads_as_they_are() -> None:
    model, taps, before = tiny_model("qwen3"), Taps(), AttentionInterface.get_interface
    model.set_attn_implementation("eager")
    with torch.no_grad(), watched(model, taps):
        model(input_ids=torch.tensor([[11, 12, 13, 14, 15]]))
    assert AttentionInterface.get_interface is before
    shapes = {part: tuple(taps.values[f"model.layers.0.self_attn.{part}", 0].shape) for part in PARTS}
    assert shapes == dict(zip(PARTS, [(1, 6, 5, 10), *[(1, 2, 5, 10)] * 2, (1, 6, 5, 5), (1, 5, 6, 10)], strict=True))
    # A row of probabilities adds to one, and the first position sees itself alone.
    probs = taps.values["model.layers.0.self_attn.probs", 0]
    torch.testing.assert_close(probs.sum(-1), torch.ones(1, 6, 5))
    assert bool((probs[:, :, 0, 1:] == 0).all())


PARTS = ("query", "key", "value", "probs", "context")


def test_what_runs_within_experts_is_their_implementations_affair() -> None:
    model, taps = tiny_model("qwen3_moe"), Taps()
    with torch.no_grad(), watched(model, taps):
        model(input_ids=torch.tensor([[11, 12, 13]]))
    names = {name for name, _ in taps.values}
    assert "model.layers.0.mlp.experts" in names and "model.layers.0.mlp.gate[2]" in names
    assert not [name for name in names if ".experts." in name]


def test_of_each_kind_of_layer_a_small_configuration_keeps_the_first() -> None:
    config = small(family("gemma3_text"), {})
    assert config.layer_types == ["sliding_attention", "full_attention"] and config.num_hidden_layers == 2
    sizes = [config.hidden_size, config.intermediate_size, config.head_dim, config.num_attention_heads]
    assert len({*sizes, config.num_key_value_heads, config.vocab_size}) == 6


def test_what_a_configuration_says_of_single_layers_goes_with_the_layers_that_stay() -> None:
    whole = family("gemma4_text")
    assert set(map(int, whole.to_dict()["per_layer_config"])) > {5}
    config = small(whole, {})
    assert config.layer_types == ["sliding_attention", "full_attention"] and config.num_hidden_layers == 2


class Rotated(nn.Module):
    """A module that is called for each of two words, in the order that it is told, and twice for the second."""

    def __init__(self, words: tuple[str, ...]) -> None:
        super().__init__()
        self.tables, self.words = Tables(), words

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum((self.tables(x, word) for word in self.words), torch.zeros(()))


class Tables(nn.Module):
    def forward(self, x: torch.Tensor, word: str) -> torch.Tensor:
        return x * len(word)


@pytest.mark.parametrize("words", [("full", "sliding"), ("sliding", "full")])
def test_calls_with_a_word_are_called_after_it_and_not_after_their_order(words: tuple[str, ...]) -> None:
    taps, x = Taps(), torch.ones(2)
    model = Rotated((*words, "sliding"))
    with watched(model, taps):
        model(x)
    seen = {name: float(value[0]) for (name, _), value in taps.values.items()}
    assert seen == {"tables#full": 4, "tables#sliding": 7, "tables#sliding#2": 7}


def test_complex_numbers_are_no_tap() -> None:
    """DeepSeek-V2's angles: a file has no type for them, and their real parts would be half of it."""
    taps = Taps()
    taps.add("rotary_emb", torch.zeros(2, dtype=torch.complex64))
    taps.add("norm", torch.zeros(2))
    assert list(taps.values) == [("norm", 0)]
