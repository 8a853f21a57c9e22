"""Masks and positions alone: who sees whom, which forms are taken, which are refused."""

from typing import Any

import pytest
import torch

from qwen3_encdec.inputs import positions
from qwen3_encdec.masks import additive_mask, encoder_mask, merged_mask

CPU = torch.device("cpu")
MIN = torch.finfo(torch.float32).min


def _merged(decoder: Any = None, encoder: Any = None, **overrides: Any) -> torch.Tensor:
    sizes: dict[str, Any] = {"batch": 2, "query": 3, "past": 0, "slots": (3, 0), "encoder_length": 4, "window": None}
    return merged_mask(decoder, encoder, **(sizes | overrides), dtype=torch.float32, device=CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_additive_mask_is_zero_or_the_smallest_finite_number(dtype: torch.dtype) -> None:
    mask = additive_mask(torch.tensor([True, False]), dtype)
    assert mask.tolist() == [0.0, torch.finfo(dtype).min]


def test_merged_mask_is_causal_for_own_keys_and_open_for_the_encoders() -> None:
    visible = _merged()[0, 0] == 0
    assert torch.equal(visible, torch.cat([torch.ones(3, 3).tril().bool(), torch.ones(3, 4).bool()], 1))


def test_merged_mask_of_a_later_step_continues_the_triangle() -> None:
    full, later = _merged(query=5, slots=(5, 0)), _merged(query=2, past=3, slots=(5, 0))
    assert torch.equal(later, full[:, :, 3:])


def test_padding_hides_keys_on_both_sides_and_never_adds_two_masks() -> None:
    mask = _merged(torch.tensor([[1, 1, 1], [0, 1, 1]]), torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0]]))
    assert set(mask.unique().tolist()) == {MIN, 0.0}
    assert (mask[1, 0, 2] == 0).tolist() == [False, True, True, True, False, True, False]
    assert (mask[0, 0, 2] == 0).all()


def test_holes_in_a_mask_are_kept() -> None:
    mask = encoder_mask(torch.tensor([[1, 0, 1]]), 1, 3, None, torch.float32, CPU)
    assert (mask[0, 0] == 0).tolist() == [[True, False, True]] * 3


@pytest.mark.parametrize("form", ["bool", "additive", "minus infinity", "broadcast", "per head"])
def test_four_dimensional_masks_are_taken_in_every_form(form: str) -> None:
    visible = torch.tensor([[[[True, False, True], [False, False, False], [True, True, True]]]]).expand(2, 1, 3, 3)
    mask: torch.Tensor = additive_mask(visible, torch.float32)
    if form == "bool":
        mask = visible
    elif form == "minus infinity":
        mask = torch.zeros(2, 1, 3, 3).masked_fill(~visible, -torch.inf)
    elif form == "broadcast":
        mask = mask[:1]
    elif form == "per head":
        mask = mask.expand(2, 6, 3, 3)
    own = _merged(mask)
    assert torch.equal(own[:, 0, :, :3] == 0, visible[:, 0]) and bool(own.isfinite().all())
    theirs = _merged(None, None, encoder_length=3) if form == "per head" else _merged(None, mask, encoder_length=3)
    if form != "per head":
        assert torch.equal(theirs[:, 0, :, 3:] == 0, visible[:, 0])
    assert torch.equal(encoder_mask(mask, 2, 3, None, torch.float32, CPU)[:, 0] == 0, visible[:, 0])


def test_four_dimensional_mask_may_cover_decoder_and_encoder_keys_at_once() -> None:
    visible = torch.rand(2, 1, 3, 7, generator=torch.Generator().manual_seed(0)) > 0.5
    assert torch.equal(_merged(visible) == 0, visible)


def test_four_dimensional_mask_keeps_the_layers_window() -> None:
    everything = torch.ones(2, 1, 3, 3, dtype=torch.bool)
    seen = _merged(everything, window=1, encoder_length=0)[0, 0] == 0
    assert torch.equal(seen, torch.ones(3, 3).triu().bool())


@pytest.mark.parametrize("form", ["bool", "additive"])
def test_a_mask_over_keys_alone_holds_for_every_query(form: str) -> None:
    visible = torch.tensor([[True, False, True], [True, True, False]])[:, None, None, :]
    mask = visible if form == "bool" else additive_mask(visible, torch.float32)
    expected = visible.expand(2, 1, 3, 3)
    both = torch.cat((mask, mask), dim=-1)
    assert torch.equal(encoder_mask(mask, 2, 3, None, torch.float32, CPU) == 0, expected)
    assert torch.equal(_merged(mask)[..., :3] == 0, expected)
    assert torch.equal(_merged(None, mask, encoder_length=3)[..., 3:] == 0, expected)
    assert torch.equal(_merged(both, encoder_length=3) == 0, torch.cat((expected, expected), dim=-1))


@pytest.mark.parametrize(
    ("decoder", "encoder", "named"),
    [
        (torch.ones(2, 2), None, "decoder attention_mask"),
        (torch.ones(1, 3), None, "decoder attention_mask"),
        (None, torch.ones(2, 3), "encoder_attention_mask"),
        (torch.ones(2, 3, 3), None, "3 dimensions"),
        (torch.ones(2, 1, 3, 5), None, r"\(2, 1, 3, 5\)"),
        (torch.ones(2, 1, 3, 3, dtype=torch.long), None, "torch.int64"),
        (torch.tensor([[0.0, 0.0, MIN]] * 2), None, "not 0/1"),
        (None, torch.ones(2, 1, 3, 3), "encoder_attention_mask"),
    ],
)
def test_mask_of_another_shape_or_form_is_a_value_error(decoder: Any, encoder: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        _merged(decoder, encoder)


def test_positions_count_tokens_and_skip_padding() -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0]])
    actual = positions(None, mask, 3, 5, 0, "position_ids", CPU)
    assert actual.tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 2, 2], [0, 0, 1, 2, 2]]


def test_positions_of_a_later_step_come_from_the_whole_mask() -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    assert positions(None, mask, 2, 2, 3, "position_ids", CPU).tolist() == [[1, 2], [3, 4]]


def test_positions_without_a_mask_go_on_from_the_past() -> None:
    assert positions(None, None, 2, 2, 3, "position_ids", CPU).tolist() == [[3, 4], [3, 4]]


def test_given_positions_are_checked_and_broadcast() -> None:
    assert positions(torch.tensor([[4, 9]]), None, 2, 2, 0, "position_ids", CPU).tolist() == [[4, 9], [4, 9]]
    with pytest.raises(ValueError, match="position_ids has shape"):
        positions(torch.tensor([[4, 9, 1]]), None, 2, 2, 0, "position_ids", CPU)
