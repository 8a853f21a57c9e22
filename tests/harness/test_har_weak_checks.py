"""Bugs that pass the weak checks of other test suites, each shown to pass the weak one and to fail here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from qwen3_encdec import masks, modeling_qwen3_encoder
from qwen3_encdec.caches import has_encoder_keys
from qwen3_encdec.merged_attention import Qwen3MergedAttention, Rotary
from qwen3_encdec.modeling_qwen3_decoder import Qwen3DecoderLayer
from qwen3_encdec.norm import Qwen3RMSNorm
from qwen3_golden import Recording
from qwen3_parity.judge.verdict import Verdicts

Judged = Callable[..., Verdicts]
Patch = pytest.MonkeyPatch


def without_layer(verdicts: Verdicts) -> str:
    """The first tap that fails, its layer left out."""
    assert verdicts.first_bad is not None
    return verdicts.first_bad.name.partition(".layers.")[2].partition(".")[2]


def causal_encoder(patch: Patch) -> None:
    plain = modeling_qwen3_encoder.encoder_mask

    def causal(mask: object, batch: int, length: int, *rest: object) -> torch.Tensor:
        found = plain(mask, batch, length, *rest)  # type: ignore[arg-type]
        ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
        return found.masked_fill(ahead, torch.finfo(found.dtype).min)

    patch.setattr(modeling_qwen3_encoder, "encoder_mask", causal)


def test_har_07_a_causal_encoder_attends_somewhere_and_yet_diverges(
    judged: Judged, recorded: Callable[..., Recording], monkeypatch: Patch
) -> None:
    causal_encoder(monkeypatch)
    probs = recorded("encoder/window_odd")["encoder.layers.1.self_attn.probs", 0].array
    assert (probs > 0.01).any(axis=-1).all()  # the weak check: every query attends to something
    assert without_layer(judged("encoder/window_odd")) == "self_attn.mask"


def test_har_08_a_norm_that_also_subtracts_the_mean_shrinks_the_variance_and_yet_diverges(
    judged: Judged, monkeypatch: Patch
) -> None:
    plain = Qwen3RMSNorm.forward
    monkeypatch.setattr(Qwen3RMSNorm, "forward", lambda self, x: plain(self, x - x.mean(-1, keepdim=True)))
    norm = Qwen3RMSNorm(40)
    x = 3 * torch.randn(4, 40, generator=torch.Generator().manual_seed(0))
    assert norm(x).var() < x.var()  # the weak check
    assert without_layer(judged("decoder/ragged_decode")) == "input_layernorm"


def test_har_08_a_residual_that_is_dropped_stays_close_under_small_weights_and_yet_diverges(
    judged: Judged, monkeypatch: Patch
) -> None:
    def forward(self: Qwen3DecoderLayer, states: torch.Tensor, *rest: object, **more: object) -> tuple[object, ...]:
        attended, weights, cache = self.merged_attn(self.input_layernorm(states), *rest, **more)
        stream = states + attended
        return self.mlp(self.post_attention_layernorm(stream)), weights, cache  # the second residual is missing

    mlp = torch.nn.Linear(40, 40, bias=False)
    torch.nn.init.constant_(mlp.weight, 1e-3)
    x = torch.rand(4, 40, generator=torch.Generator().manual_seed(0)) * 0.4
    assert torch.allclose(mlp(x), x, atol=0.5)  # the weak check
    monkeypatch.setattr(Qwen3DecoderLayer, "forward", forward)
    assert without_layer(judged("decoder/ragged_decode")) == "output"


def doubled_memory(patch: Patch) -> None:
    """From the first decode step on, attention is given the encoder's keys twice."""
    plain, plain_mask = Qwen3MergedAttention._memory, masks.memory_mask

    def memory(self: Qwen3MergedAttention, states: torch.Tensor, tables: Rotary | None, cache: Any) -> Rotary:
        again = has_encoder_keys(cache, self.layer_idx)
        keys, values = plain(self, states, tables, cache)
        return (torch.cat((keys, keys), 2), torch.cat((values, values), 2)) if again else (keys, values)

    def mask(given: torch.Tensor, batch: int, query: int, *rest: object) -> torch.Tensor:
        found = plain_mask(given, batch, query, *rest)  # type: ignore[arg-type]
        return torch.cat((found, found), -1) if query == 1 else found

    patch.setattr(Qwen3MergedAttention, "_memory", memory)
    patch.setattr(masks, "memory_mask", mask)


def test_har_10_a_cache_that_grows_by_the_encoders_keys_again_diverges_from_the_first_step(
    judged: Judged, recorded: Callable[..., Recording], monkeypatch: Patch
) -> None:
    doubled_memory(monkeypatch)
    name = "decoder.layers.0.merged_attn.cache_keys"
    recording = recorded("encdec/ragged")
    assert recording[name, 1].array.shape[2] > recording[name, 0].array.shape[2]  # the weak check: it grew
    failed = [tap for tap in judged("encdec/ragged").taps if not tap.passed]
    assert {tap.step for tap in failed} == {1, 2, 3, 4}
    assert name in {tap.name for tap in failed if tap.step == 1}
