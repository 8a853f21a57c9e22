"""A decoder with an encoder: whose keys and values it reads, which it hides, and where it begins in each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import qwen3_parity
from qwen3_golden import Recording, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_reference.caches import CACHE
from qwen3_reference.graph.load import load
from qwen3_reference.graph.tiny import write_tiny

pytestmark = pytest.mark.slow
LAYERS = ("model.encoder", "model.decoder.layernorm_embedding", "model.decoder.layers.0", "model.decoder.layers.1")
START = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny("bart", tmp_path_factory.mktemp("tiny") / "bart", floors=False).parent


def attentions(model: Any) -> Iterator[Any]:
    yield from (layer.encoder_attn for layer in model.model.decoder.layers)


def cross(model: Any, change: Callable[..., dict[str, Any]]) -> None:
    """Every cross attention by other arguments, made of its states and of what it is called with."""
    for attention in attentions(model):
        attention.register_forward_pre_hook(lambda _, args, kwargs: (args, change(args[0], kwargs)), with_kwargs=True)


def unmasked(model: Any) -> None:
    cross(model, lambda _, kwargs: {**kwargs, "attention_mask": None})


def of_its_own(model: Any) -> None:
    """Keys and values of the decoder's states in each step alone, all of them seen by none ahead."""

    def change(states: torch.Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
        ahead = torch.full((states.shape[1],) * 2, float("-inf")).triu(1)
        return {**kwargs, "key_value_states": states, "past_key_values": None, "attention_mask": ahead[None, None]}

    cross(model, change)


def of_the_first_layer(model: Any) -> None:
    first, *others = attentions(model)
    for each in others:
        each.k_proj, each.v_proj = first.k_proj, first.v_proj


def counted_again(model: Any) -> None:
    positions = model.model.decoder.embed_positions
    positions.register_forward_hook(
        lambda module, args, kwargs, result: module.weight[module.offset :][: result.shape[-2]].expand_as(result),
        with_kwargs=True,
    )


def begun(model: Any) -> None:
    def change(_: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        ids = kwargs["input_ids"]
        first = (torch.arange(ids.shape[1]) == 0) & (ids.shape[1] > 1)
        return args, {**kwargs, "input_ids": torch.where(first, START, ids)}

    model.model.decoder.register_forward_pre_hook(change, with_kwargs=True)


MISTAKES: dict[str, tuple[Callable[[Any], None], str]] = {
    "padding": (unmasked, "edit.mask: does not hide the encoder's padding in encoder_attn, at modeling_bart.py:"),
    "its own": (
        of_its_own,
        "edit.reads: makes the keys and values of encoder_attn of the decoder's states, as its queries, over the "
        "tokens of each step alone, at modeling_bart.py:",
    ),
    "the first layer's": (
        of_the_first_layer,
        "edit.reads: reads the keys and values of decoder.layers.0.encoder_attn in encoder_attn of every layer, at ",
    ),
    "positions": (
        counted_again,
        "edit.input: has positions from 0 again, without the past's length, in every step but the first, at ",
    ),
    "the start": (begun, f"edit.input: begins decoder_input_ids with {START} ("),
}


def recorded(model: Any, folder: Path, path: Path) -> Recording:
    case, states = qwen3_parity.golden(folder / "golden.pb"), None
    model.set_attn_implementation("eager")
    with torch.no_grad(), qwen3_parity.record(model, case, path=path, taps=["layer"]) as recording:
        for step in case.steps:
            states = model(**step, **{CACHE: states}, use_cache=True)[CACHE]
    return read(recording.path)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_a_decoder_reads_otherwise_is_told(mistake: str, folder: Path, tmp_path: Path) -> None:
    change, says = MISTAKES[mistake]
    golden, model = read(folder / "golden.pb", digests=True), load(folder)
    change(model)
    every = recorded(model, folder, tmp_path / "mine.pb")
    tensors = [item for item in every if item.info.name in LAYERS or item.info.name.startswith("input.")]
    mine = replace(every, tensors=tensors, parameters=[])
    faults = diagnose(golden, mine, dict(weights_of(golden, folder.parent)), partial=True).faults
    assert faults
    for fault in faults:
        assert [f"{said.name}: {said.says}"[: len(says)] for said in fault.explanations] == [says]
