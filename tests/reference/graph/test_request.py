"""Inputs of a model are checked before it runs, completed as generate would, and cut into steps."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from qwen3_golden import ParityError
from qwen3_reference.caches import states
from qwen3_reference.graph.request import completed, longer, wider
from qwen3_reference.graph.steps import Steps, has_cache
from qwen3_reference.graph.taps import Taps


class Counting(nn.Module):
    """A decoder's interface: what each forward was handed, and a cache that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, Any]] = []

    def can_generate(self) -> bool:
        return True

    def forward(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        position_ids: Any = None,
        use_cache: bool = False,
        past_key_values: Any = None,
    ) -> Any:
        self.seen.append({"ids": input_ids, "mask": attention_mask, "at": position_ids, "past": past_key_values})
        return Output(logits=input_ids.float(), past_key_values=Cache(len(self.seen)))


class Output:
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class Cache:
    def __init__(self, count: int) -> None:
        self.layers = [
            Output(keys=torch.full((1, 1, count, 1), 0.5), is_initialized=True, _hidden=torch.ones(1)),
            Output(conv_states={0: torch.ones(1), 1: torch.zeros(1)}),
        ]


IDS = torch.tensor([[0, 0, 5, 6, 7], [4, 5, 6, 7, 8]])
MASK = (IDS > 0).long()


def test_a_decoders_positions_count_real_tokens_and_padding_has_the_first() -> None:
    inputs, steps = completed(Counting(), {"input_ids": IDS, "attention_mask": MASK}, ())
    assert inputs["position_ids"].tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]] and steps == (5,)


def test_positions_that_were_handed_in_stay() -> None:
    positions = torch.arange(5).expand(2, 5)
    inputs, _ = completed(Counting(), {"input_ids": IDS, "attention_mask": MASK, "position_ids": positions}, ())
    assert inputs["position_ids"] is positions


def test_a_step_sees_its_ids_and_positions_all_of_the_mask_so_far_and_the_cache_before_it() -> None:
    model, taps = Counting(), Taps()
    inputs, steps = completed(model, {"input_ids": IDS, "attention_mask": MASK}, (3, 1, 1))
    Steps(model, steps, taps)(inputs)
    assert [call["ids"].tolist() for call in model.seen] == [[[0, 0, 5], [4, 5, 6]], [[6], [7]], [[7], [8]]]
    assert [tuple(call["mask"].shape) for call in model.seen] == [(2, 3), (2, 4), (2, 5)]
    assert [call["at"].tolist() for call in model.seen][1:] == [[[1], [3]], [[2], [4]]]
    assert [call["past"] is not None for call in model.seen] == [False, True, True]
    names = ["logits", "cache.0.keys", "cache.1.conv_states", "cache.1.conv_states[1]"]
    assert list(taps.values) == [(name, step) for step in range(3) for name in names]


def test_states_are_part_of_what_a_model_with_a_cache_computes_unless_its_config_says_that_it_uses_none() -> None:
    model = SimpleNamespace(can_generate=lambda: True, config=SimpleNamespace(use_cache=True))
    assert has_cache(model)  # type: ignore[arg-type]
    model.config.use_cache = False
    assert not has_cache(model)  # type: ignore[arg-type]


def test_a_decoder_that_keeps_no_cache_counts_real_tokens_as_any_other() -> None:
    model = Counting()
    model.config = SimpleNamespace(use_cache=False)  # type: ignore[assignment]
    inputs, _ = completed(model, {"input_ids": IDS, "attention_mask": MASK}, ())
    assert inputs["position_ids"].tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]


def test_the_sides_of_an_encoder_decoders_cache_have_two_names() -> None:
    cache = Output(self_attention_cache=Cache(1), cross_attention_cache=Cache(2))
    names = [name for name, _ in states(cache)]
    assert "cache.0.keys" in names and "cache.0.cross_keys" in names and len(names) == len(set(names))


@pytest.mark.parametrize(
    ("inputs", "steps", "says"),
    [
        ({}, (), "nothing to run"),
        ({"input_ids": IDS, "pixels": IDS}, (), "does not take 'pixels'"),
        ({"input_ids": IDS.numpy()}, (), "input_ids is no tensor with a batch"),
        ({"input_ids": IDS[:0]}, (), "input_ids is no tensor with a batch"),
        ({"input_ids": IDS[0]}, (), "ids have no axis of positions"),
        ({"input_ids": IDS, "attention_mask": MASK[:1]}, (), "other numbers of rows"),
        ({"input_ids": IDS}, (3, 1), "the steps do not add up"),
        ({"input_ids": IDS}, (6, -1), "the steps do not add up"),
        ({"input_ids": torch.full((1, 2), torch.nan)}, (), "NaN or infinite"),
    ],
)
def test_inputs_that_do_not_go_together_are_refused(
    inputs: Mapping[str, Any], steps: tuple[int, ...], says: str
) -> None:
    with pytest.raises(ParityError, match=says):
        completed(Counting(), inputs, steps)


def test_sound_is_as_long_as_it_is_beside_a_longer_text() -> None:
    inputs = {"input_features": torch.zeros(2, 8, 32), "decoder_input_ids": torch.zeros(2, 4, dtype=torch.long)}
    assert [tuple(tensor.shape) for tensor in longer(inputs).values()] == [(2, 8, 32), (2, 5)]


def test_another_batch_and_another_length_keep_the_inputs_together() -> None:
    inputs = {"input_ids": IDS, "position_ids": torch.zeros(3, 2, 5), "attention_mask": torch.zeros(2, 1, 5, 5)}
    assert [tuple(tensor.shape) for tensor in wider(inputs).values()] == [(3, 5), (3, 3, 5), (3, 1, 5, 5)]
    assert [tuple(tensor.shape) for tensor in longer(inputs).values()] == [(2, 6), (3, 2, 6), (2, 1, 6, 6)]
