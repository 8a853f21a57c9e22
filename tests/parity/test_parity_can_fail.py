"""The parity tests can fail: bugs seeded in our implementation diverge, and the op that is wrong is named, no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen3_encdec import attention, masks, merged_attention, modeling_qwen3_decoder, rope
from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity import check, replay
from qwen3_parity.implementation import EncoderDecoder, factory
from qwen3_parity.record import record
from qwen3_parity.weights import weights_of

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
Seed = Callable[[EncoderDecoder, pytest.MonkeyPatch], None]


def norms_with(change: Callable[[Any], None]) -> Seed:
    def seed(runner: EncoderDecoder, _patch: pytest.MonkeyPatch) -> None:
        for layer in runner.model.decoder.layers:
            change(layer)

    return seed


def eps(layer: Any) -> None:
    layer.input_layernorm.variance_epsilon *= 10


def activation(layer: Any) -> None:
    layer.mlp.act_fn = torch.nn.GELU()


def scale(layer: Any) -> None:
    layer.merged_attn.scaling *= 1.001


def swapped_norms(layer: Any) -> None:
    attention = layer.merged_attn
    attention.q_norm, attention.k_norm = attention.k_norm, attention.q_norm


def swapped_gate(layer: Any) -> None:
    layer.mlp.gate_proj, layer.mlp.up_proj = layer.mlp.up_proj, layer.mlp.gate_proj


def interleaved(runner: EncoderDecoder, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rope, "rotate_half", lambda x: torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2))


def tiled(runner: EncoderDecoder, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attention, "repeat_kv", lambda x, groups: x.repeat(1, groups, 1, 1))


def theta(runner: EncoderDecoder, patch: pytest.MonkeyPatch) -> None:
    table = runner.model.decoder.rotary_emb
    table.inv_freq = table.inv_freq * 1.0001


def wide_window(runner: EncoderDecoder, patch: pytest.MonkeyPatch) -> None:
    visible = masks._window_visible
    patch.setattr(masks, "_window_visible", lambda d, window: visible(d, None if window is None else window + 1))


def causal_memory(runner: EncoderDecoder, patch: pytest.MonkeyPatch) -> None:
    plain = masks.memory_mask

    def seen(mask: Any, batch: int, query: int, length: int, dtype: Any, device: Any) -> torch.Tensor:
        found = plain(mask, batch, query, length, dtype, device).expand(-1, -1, query, -1)
        return found.masked_fill(torch.ones(query, length, dtype=torch.bool).triu(1), torch.finfo(dtype).min)

    patch.setattr(masks, "memory_mask", seen)


def late_positions(runner: EncoderDecoder, patch: pytest.MonkeyPatch) -> None:
    plain = modeling_qwen3_decoder.positions
    patch.setattr(modeling_qwen3_decoder, "positions", lambda *a: plain(*a) + (a[4] > 0))


def forgetful_cache(runner: EncoderDecoder, patch: pytest.MonkeyPatch) -> None:
    plain = merged_attention.encoder_keys_values
    patch.setattr(merged_attention, "encoder_keys_values", lambda c, i: tuple(x.roll(1, 0) for x in plain(c, i)))


# name: the seeded bug, a case that shows it, and the taps (without their layer) that are wrong on their own inputs
BUGS: Mapping[str, tuple[Seed, str, set[str]]] = {
    "eps": (norms_with(eps), "encdec/ragged", {"input_layernorm"}),
    "activation": (norms_with(activation), "encdec/ragged", {"mlp.act"}),
    "scale": (norms_with(scale), "encdec/ragged", {"merged_attn.scores"}),
    "interleaved rope": (
        interleaved,
        "decoder/ragged_decode",
        {"merged_attn.q_rope", "merged_attn.k_rope"},
    ),
    "tiled kv heads": (tiled, "decoder/ragged_decode", {"merged_attn.scores", "merged_attn.context"}),
    "theta": (theta, "decoder/ragged_decode", {"decoder.inv_freq"}),
    "window of one more": (wide_window, "decoder/window_chunks", {"merged_attn.mask"}),
    "causal memory": (causal_memory, "encdec/ragged", {"merged_attn.mask"}),
    "positions from the second step": (late_positions, "decoder/ragged_decode", {"decoder.position_ids"}),
    "encoder keys of another row": (
        forgetful_cache,
        "encdec/ragged",
        {"merged_attn.cache_encoder_keys", "merged_attn.cache_encoder_values"},
    ),
    "q_norm for k_norm": (
        norms_with(swapped_norms),
        "encdec/ragged",
        {"merged_attn.q_norm", "merged_attn.k_norm", "merged_attn.encoder_k_norm"},
    ),
    "gate for up": (norms_with(swapped_gate), "decoder/ragged_decode", {"mlp.gate_proj", "mlp.up_proj"}),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_diverges_and_its_op_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, case, wrong = BUGS[name]
    golden = read(GOLDEN_ROOT / "cases" / f"{case}.pb")

    def build(message: pb.Case, checkpoints: Mapping[str, Path]) -> EncoderDecoder:
        runner = factory()(message, checkpoints)
        assert isinstance(runner, EncoderDecoder)
        seed(runner, monkeypatch)
        return runner

    record(golden, tmp_path / "mutant.pb", build)
    assert check(golden, tmp_path / "mutant.pb").exit_code == 1
    mutant = read(tmp_path / "mutant.pb")
    accused = {one.name for one in replay(mutant, weights_of(mutant, CHECKPOINTS)) if not one.passed}
    assert {tap.partition(".layers.")[2].partition(".")[2] or tap for tap in accused} == wrong
