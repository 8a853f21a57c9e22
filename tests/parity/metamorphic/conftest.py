"""Requests to our implementation along any path, and how far two answers are apart, in budgets of what was answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import EncoderDecoderCache

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT, Array, pb, place, read
from qwen3_parity.judge.budgets import headroom, shares
from qwen3_parity.judge.compare import compare
from qwen3_reference.capture.record import record_request

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
Answer = dict[str, Array]
"""Tap name to array: `encoder.norm`, `logits` of all steps joined, and the caches as the last step leaves them."""


@dataclass(frozen=True)
class Request:
    """What is asked: ids int64 and masks bool (True = a token), `[batch, enc]` and `[batch, dec]`; enc may be 0."""

    source: torch.Tensor
    source_mask: torch.Tensor
    target: torch.Tensor
    target_mask: torch.Tensor

    def rows(self, order: Sequence[int]) -> Request:
        """The request of these batch rows, in this order."""
        return Request(*(one[list(order)] for one in self._parts()))

    def alone(self, row: int) -> Request:
        """One row without its padding."""
        source = self.source[row, self.source_mask[row]][None]
        target = self.target[row, self.target_mask[row]][None]
        return Request(source, torch.ones_like(source).bool(), target, torch.ones_like(target).bool())

    def until(self, ends: Sequence[int]) -> Request:
        """The rows end here: what comes later is padding."""
        running = torch.arange(self.target.shape[1]) < torch.tensor(ends)[:, None]
        return replace(self, target=self.target.where(running, 1), target_mask=self.target_mask & running)

    def _parts(self) -> tuple[torch.Tensor, ...]:
        return self.source, self.source_mask, self.target, self.target_mask


@dataclass(frozen=True)
class Subject:
    """A model with a request, and the noise floor of float32 in every part of the answer, `floors[tap]`."""

    model: Qwen3ForSeq2SeqLM
    request: Request
    floors: dict[str, pb.Floor]
    layers: int

    def answer(self, request: Request | None = None, steps: Sequence[int] = ()) -> Answer:
        """The answer to a request (its own by default), the target fed in `steps` (all at once by default)."""
        return answer(self.model, request or self.request, steps or [(request or self.request).target.shape[1]])

    def apart(self, actual: Answer, expected: Answer, scope: Answer | None = None) -> float:
        """The largest share of a budget that a difference uses, infinite for another shape; `scope[tap]`: judged."""
        found = [0.0]
        for name, value in expected.items():
            if actual[name].shape != value.shape:
                return float("inf")
            if value.size and (scope is None or scope[name].any()):
                found.append(self.share(name, actual[name], value, None if scope is None else scope[name]))
        return max(found)

    def share(self, name: str, actual: Array, expected: Array, scope: Array | None = None) -> float:
        """The share of one tap's budget."""
        spot = place(name, self.layers)
        assert spot is not None
        metrics = compare(actual, expected, scope, axes=spot.axes)
        worst = shares(metrics, self.floors[name], headroom("run", spot.op)).worst
        return float("inf") if np.isnan(worst) else worst

    def scope(self, request: Request) -> Answer:
        """What is judged of an answer to `request`: everything but padding; it broadcasts to the taps."""
        source, target = request.source_mask.numpy(), request.target_mask.numpy()
        found = {"encoder.norm": source[:, :, None], "logits": target[:, :, None]}
        for name in self.floors:
            if "cache_" in name:
                found[name] = (source if "encoder" in name else target)[:, None, :, None]
        return found

    def row(self, whole: Answer, request: Request, row: int) -> Answer:
        """The part of an answer that belongs to one row of the request, without its padding."""
        source, target = request.source_mask[row].numpy(), request.target_mask[row].numpy()
        own = {"encoder.norm": whole["encoder.norm"][row][source][None], "logits": whole["logits"][row][target][None]}
        for name, value in whole.items():
            if "cache_" in name:
                own[name] = value[row][:, source if "encoder" in name else target][None]
        return own


@torch.no_grad()
def answer(model: Qwen3ForSeq2SeqLM, request: Request, steps: Sequence[int]) -> Answer:
    """Encode once, then decode in steps with one cache; positions are counted by the model from the masks."""
    length = request.source.shape[1]
    if length:
        encoded = model.encoder(request.source, request.source_mask).last_hidden_state
    else:
        encoded = torch.zeros(len(request.target), 0, model.config.hidden_size)
    logits, cache, start = [], None, 0
    for count in steps:
        output = model(
            encoder_outputs=(encoded,),
            attention_mask=request.source_mask,
            decoder_input_ids=request.target[:, start : start + count],
            decoder_attention_mask=request.target_mask[:, : start + count],
            past_key_values=cache,
            use_cache=True,
        )
        logits.append(output.logits)
        cache, start = output.past_key_values, start + count
    assert isinstance(cache, EncoderDecoderCache)
    found = {"encoder.norm": encoded, "logits": torch.cat(logits, dim=1)}
    for kind, half in (("cache_", cache.self_attention_cache), ("cache_encoder_", cache.cross_attention_cache)):
        for index, layer in enumerate(half.layers):
            found[f"decoder.layers.{index}.merged_attn.{kind}keys"] = layer.keys
            found[f"decoder.layers.{index}.merged_attn.{kind}values"] = layer.values
    return {name: value.numpy() for name, value in found.items()}


# name: checkpoints (of the encoder, of the decoder), whether encoder keys are rotated, and the masks of both sides
SUBJECTS: dict[str, tuple[str, str, bool, tuple[str, ...], tuple[str, ...]]] = {
    "rotated": (*("tied-encoder", "tied-decoder", True), ("1111111", "0011111", "1111000"),
        ("111111111", "110111111", "000111111")),
    "unrotated": (*("tied-encoder", "tied-decoder", False), ("111111", "001111", "111100"),
        ("111111111", "110111111", "000111111")),
    "window": (*("window-encoder", "window-decoder", True), ("1" * 13, "000" + "1" * 10, "1" * 12 + "0"),
        ("1" * 14, "0" + "1" * 13, "00" + "1" * 12)),
    "qwen2": (*("qwen2-encoder", "qwen2-decoder", True), ("11111", "01111", "11100"),
        ("1111111", "0011111", "0111111")),
    "causal": (*("", "tied-decoder", True), ("", "", ""), ("111111111", "110111111", "000111111")),
    "long": (*("tied-encoder", "tied-decoder", True), ("1111111", "0011111"), ("1" * 70, "000" + "1" * 67)),
}  # fmt: skip


def _inputs(stack: str, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, Array]:
    positions = np.maximum(np.cumsum(mask.numpy(), axis=1) - 1, 0)
    named = {"input_ids": ids.numpy(), "attention_mask": mask.numpy(), "position_ids": positions}
    return {f"input.{stack}_{name}": value for name, value in named.items()}


@pytest.fixture(scope="session")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Subject]:
    """`subject(name)` of `SUBJECTS`; its floors are measured by the reference, on this very request."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("floors")

    @cache
    def build(name: str) -> Subject:
        encoder, decoder, rotated, *rows = SUBJECTS[name]
        draw = torch.Generator().manual_seed(sum(map(ord, name)))
        sides = []
        for masks in rows:
            mask = torch.tensor([[slot == "1" for slot in row] for row in masks], dtype=torch.bool)
            sides += [torch.randint(2, 190, mask.shape, generator=draw).where(mask, 1), mask]
        request = Request(*sides)
        given = _inputs("decoder", request.target, request.target_mask)
        if encoder:
            given |= _inputs("encoder", request.source, request.source_mask)
        directories = [CHECKPOINTS / one if one else None for one in (encoder, decoder)]
        path: Path = folder / f"{name}.pb"
        kept = ("encoder.norm", "logits", "*.cache_*")
        steps = (request.target.shape[1],)
        record_request(*directories, given, steps, path, taps=kept, rotate_encoder_keys=rotated)
        floors = {item.info.name: item.info.floor for item in read(path) if item.info.HasField("floor")}
        model = load_qwen3(directories[1] or Path(), directories[0], rotate_encoder_keys=rotated)
        model.set_attn_implementation("eager")
        return Subject(model, request, floors, model.config.num_hidden_layers)

    return build
