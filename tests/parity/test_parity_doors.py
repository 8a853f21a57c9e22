"""One request through the other doors of our model: they must lead to the golden's numbers as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from transformers.cache_utils import EncoderDecoderCache, StaticCache

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity.checkpoints.weights import checkpoint_directories
from qwen3_parity.judge.compare import compare
from qwen3_parity.recording.ours.network import EncoderDecoder, factory
from qwen3_parity.recording.record import inputs_of

Given = Mapping[str, torch.Tensor]
CASES = ["encdec/ragged", "encdec/window", "encdec/unrotated"]


def golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb")


def plain_model(recording: Recording) -> Qwen3ForSeq2SeqLM:
    runner = factory()(recording.case, checkpoint_directories(recording.case, GOLDEN_ROOT / "checkpoints"))
    assert isinstance(runner, EncoderDecoder)
    runner.model.set_attn_implementation("eager")
    return runner.model


def request(inputs: Given) -> dict[str, Any]:
    """The whole request in one call, from the ids of both sides."""
    return {
        "input_ids": inputs["encoder_input_ids"],
        "attention_mask": inputs["encoder_attention_mask"],
        "position_ids": inputs["encoder_position_ids"],
        "decoder_input_ids": inputs["decoder_input_ids"],
        "decoder_attention_mask": inputs["decoder_attention_mask"],
        "decoder_position_ids": inputs["decoder_position_ids"],
    }


def one_call(model: Qwen3ForSeq2SeqLM, inputs: Given) -> torch.Tensor:
    return model(**request(inputs)).logits


def without_cache(model: Qwen3ForSeq2SeqLM, inputs: Given) -> torch.Tensor:
    output = model(**request(inputs), use_cache=False)
    assert output.past_key_values is None
    return output.logits


def as_tuple(model: Qwen3ForSeq2SeqLM, inputs: Given) -> torch.Tensor:
    logits: torch.Tensor = model(**request(inputs), return_dict=False)[0]
    return logits


def encoded_tuple(model: Qwen3ForSeq2SeqLM, inputs: Given) -> torch.Tensor:
    side = {key: inputs[f"encoder_{key}"] for key in ("input_ids", "attention_mask", "position_ids")}
    encoded = model.encoder(**side, return_dict=False)
    return model(**request(inputs) | {"input_ids": None}, encoder_outputs=encoded[:1]).logits


def embeddings(model: Qwen3ForSeq2SeqLM, inputs: Given) -> torch.Tensor:
    ids = {"input_ids": None, "decoder_input_ids": None}
    embedded = {
        "inputs_embeds": model.shared(inputs["encoder_input_ids"]),
        "decoder_inputs_embeds": model.shared(inputs["decoder_input_ids"]),
    }
    return model(**request(inputs) | ids | embedded).logits


def causal(inputs: Given) -> torch.Tensor:
    """Who sees whom among the decoder's tokens, `[batch, 1, query, key]`, before any window."""
    real = inputs["decoder_attention_mask"]
    return torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).tril() & real[:, None, None, :]


def four_axes(model: Qwen3ForSeq2SeqLM, inputs: Given) -> torch.Tensor:
    length, encoder = inputs["decoder_input_ids"].shape[1], inputs["encoder_attention_mask"]
    side = {"input_ids": inputs["encoder_input_ids"], "position_ids": inputs["encoder_position_ids"]}
    square = encoder[:, None, None, :].expand(-1, 1, encoder.shape[1], -1)
    encoded = model.encoder(**side, attention_mask=square)
    masks = {
        "input_ids": None,
        "attention_mask": encoder[:, None, None, :].expand(-1, 1, length, -1),
        "decoder_attention_mask": causal(inputs),
    }
    return model(**request(inputs) | masks, encoder_outputs=encoded).logits


def one_mask_for_both(model: Qwen3ForSeq2SeqLM, inputs: Given) -> torch.Tensor:
    memory = inputs["encoder_attention_mask"][:, None, None, :].expand(-1, 1, inputs["decoder_input_ids"].shape[1], -1)
    visible = torch.cat((causal(inputs), memory), dim=-1)
    additive = torch.zeros(visible.shape).masked_fill(~visible, -torch.inf)
    return model(**request(inputs) | {"decoder_attention_mask": additive}).logits


def static_cache(model: Qwen3ForSeq2SeqLM, inputs: Given) -> torch.Tensor:
    full = type(model.config).from_dict(
        model.config.to_dict()
        | {"layer_types": ["full_attention"] * model.config.num_hidden_layers, "sliding_window": None}
    )
    length, memory = inputs["decoder_input_ids"].shape[1], inputs["encoder_input_ids"].shape[1]
    cache = EncoderDecoderCache(
        StaticCache(config=full, max_cache_len=length + 3), StaticCache(config=full, max_cache_len=memory + 2)
    )
    parts, call = [], request(inputs)
    for start, stop in ((0, 3), (3, length)):
        step = {
            "decoder_input_ids": inputs["decoder_input_ids"][:, start:stop],
            "decoder_attention_mask": inputs["decoder_attention_mask"][:, :stop],
            "decoder_position_ids": inputs["decoder_position_ids"][:, start:stop],
        }
        parts.append(model(**call | step, past_key_values=cache).logits)
    return torch.cat(parts, dim=1)


def cast_afterwards(model: Qwen3ForSeq2SeqLM, inputs: Given) -> torch.Tensor:
    """To another dtype and back: the frequencies must come through (the weights are rounded, so they are put back)."""
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.to(torch.bfloat16).to(torch.float32)  # type: ignore[arg-type]
    model.load_state_dict(weights)
    return one_call(model, inputs)


DOORS: dict[str, Callable[[Qwen3ForSeq2SeqLM, Given], torch.Tensor]] = {
    "one call from the ids of both sides": one_call,
    "without a cache": without_cache,
    "a tuple in place of an output": as_tuple,
    "the encoder's output as a tuple": encoded_tuple,
    "embeddings in place of ids": embeddings,
    "masks of four axes": four_axes,
    "one additive mask over both halves": one_mask_for_both,
    "a static cache with spare slots": static_cache,
    "cast and cast back": cast_afterwards,
}


@pytest.mark.sample(every=4)
@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("door", DOORS)
def test_every_door_leads_to_the_goldens_logits(door: str, name: str) -> None:
    recording = golden(name)
    inputs = {key.removeprefix("input."): torch.from_numpy(a.copy()) for key, a in inputs_of(recording).items()}
    taps = [recording["logits", step] for step in range(len(recording.case.steps))]
    expected = np.concatenate([tap.array for tap in taps], axis=1)
    floor = pb.Floor(
        rms=max(t.info.floor.rms for t in taps),
        max=max(t.info.floor.max for t in taps),
        row=max(t.info.floor.row for t in taps),
    )
    real = inputs["decoder_attention_mask"].numpy()
    metrics = compare(
        DOORS[door](plain_model(recording), inputs).numpy(),
        expected,
        real[:, :, None],
        axes=("batch", "query", "vocab"),
    )
    assert metrics.rms <= 4 * floor.rms
    assert metrics.max <= 8 * floor.max
    assert metrics.row <= 8 * floor.row


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_the_weights_that_are_asked_for_are_the_goldens_probabilities(name: str) -> None:
    recording = golden(name)
    inputs = {key.removeprefix("input."): torch.from_numpy(a.copy()) for key, a in inputs_of(recording).items()}
    start = recording.case.steps[0]
    call = request(inputs) | {key: inputs[key][:, :start] for key in request(inputs) if key.startswith("decoder_")}
    output = plain_model(recording)(**call, output_attentions=True)
    real = inputs["decoder_attention_mask"][:, :start].numpy()[:, None, :, None]
    for layer, (self_probs, cross) in enumerate(zip(output.decoder_attentions, output.cross_attentions, strict=True)):
        tap = recording[f"decoder.layers.{layer}.merged_attn.probs", 0]
        metrics = compare(
            torch.cat((self_probs, cross), dim=-1).numpy(), tap.array, real, axes=("batch", "heads", "query", "key")
        )
        assert self_probs.shape[-1] == start
        assert metrics.max <= 8 * tap.info.floor.max
    for layer, weights in enumerate(output.encoder_attentions):
        tap = recording[f"encoder.layers.{layer}.self_attn.probs", 0]
        rows = inputs["encoder_attention_mask"].numpy()[:, None, :, None]
        assert (
            compare(weights.numpy(), tap.array, rows, axes=("batch", "heads", "query", "key")).max
            <= 8 * tap.info.floor.max
        )


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_the_hidden_states_that_are_asked_for_are_the_goldens_stream(name: str) -> None:
    recording = golden(name)
    inputs = {key.removeprefix("input."): torch.from_numpy(a.copy()) for key, a in inputs_of(recording).items()}
    side = {key: inputs[f"encoder_{key}"] for key in ("input_ids", "attention_mask", "position_ids")}
    model = plain_model(recording)
    states = model.encoder(**side, output_hidden_states=True).hidden_states
    names = [f"encoder.layers.{layer}.input" for layer in range(model.config.num_hidden_layers)] + ["encoder.norm"]
    assert len(states) == len(names)
    for state, tap in zip(states, (recording[n, 0] for n in names), strict=True):
        rows = inputs["encoder_attention_mask"].numpy()[:, :, None]
        metrics = compare(state.numpy(), tap.array, rows, axes=("batch", "key", "channel"))
        assert metrics.rms <= 4 * max(tap.info.floor.rms, np.finfo(np.float32).eps)
