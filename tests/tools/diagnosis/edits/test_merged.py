"""Attention over a decoder's own keys and an encoder's in one softmax, and the encoder's windows on both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from recorded import LEVELS
from transformers.models.t5gemma2 import modeling_t5gemma2 as source

import qwen3_parity
from qwen3_golden import Recording, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_reference.graph.load import load
from qwen3_reference.graph.tiny import write_tiny

pytestmark = pytest.mark.slow
Patch = pytest.MonkeyPatch
SOFTMAX = "edit.sibling: takes softmax of each part of the keys by itself: of "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny("t5gemma2", tmp_path_factory.mktemp("tiny") / "t5gemma2", floors=False).parent


def attending(monkeypatch: Patch, encoder: int, change: Callable[..., tuple[Any, Any]]) -> None:
    """Every merged attention by other probabilities and values."""
    plain = source.eager_attention_forward

    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, **named: Any) -> tuple[Any, Any]:
        result, probs = plain(module, query, key, value, mask, **named)
        if not isinstance(module, source.T5Gemma2MergedAttention):
            return result, probs
        probs, value = change(probs, key, value, key.shape[2] - encoder)
        return (probs @ source.repeat_kv(value, module.num_key_value_groups)).transpose(1, 2), probs

    monkeypatch.setattr(source, "eager_attention_forward", attend)


def by_parts(divisor: int) -> Callable[[Patch, int], None]:
    def change(probs: Any, _: Any, value: Any, decoder_keys: int) -> tuple[Any, Any]:
        parts = (
            part / part.sum(-1, keepdim=True).clamp(min=1e-30) / divisor
            for part in probs.tensor_split([decoder_keys], -1)
        )
        return torch.cat([*parts], -1), value

    return lambda monkeypatch, encoder: attending(monkeypatch, encoder, change)


def keys_for_values(monkeypatch: Patch, encoder: int) -> None:
    def change(probs: Any, key: Any, value: Any, decoder_keys: int) -> tuple[Any, Any]:
        return probs, torch.cat([value[:, :, :decoder_keys], key[:, :, decoder_keys:]], 2)

    attending(monkeypatch, encoder, change)


def looking_back(monkeypatch: Patch, _: int) -> None:
    plain = source.sliding_window_mask_function
    monkeypatch.setattr(source, "sliding_window_mask_function", lambda size, is_causal=True: plain(size))


MISTAKES: dict[str, tuple[Callable[[Patch, int], None], str, str]] = {
    "parts": (by_parts(1), SOFTMAX, ""),
    "mean of parts": (by_parts(2), SOFTMAX, ", divided by 2, at "),
    "keys": (keys_for_values, "edit.reads: reads cache.*.cross_keys for cache.*.cross_values, part 1 of cat, at ", ""),
    "window": (looking_back, "edit.mask: has its window behind each query alone, all of it, not on both sides: ", ""),
}


def recorded(model: Any, folder: Path, path: Path) -> Recording:
    case = qwen3_parity.golden(folder / "golden.pb")
    model.set_attn_implementation("eager")
    with torch.no_grad(), qwen3_parity.record(model, case, path=path) as recording:
        model(**case.inputs)
    every = read(recording.path)
    return replace(every, tensors=[item for item in every if LEVELS["modules"].fullmatch(item.info.name)])


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_merged_attention_does_otherwise_is_told(
    mistake: str, folder: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    change, says, more = MISTAKES[mistake]
    golden, model = read(folder / "golden.pb", digests=True), load(folder)
    change(monkeypatch, golden["input.input_ids", 0].values().shape[1])
    mine = recorded(model, folder, tmp_path / "mine.pb")
    faults = diagnose(golden, mine, dict(weights_of(golden, folder.parent)), partial=True).faults
    assert faults
    best = faults[0].explanations[0]
    said = f"{best.name}: {best.says}"
    assert said.startswith(says) and more in said and "modeling_t5gemma2.py:" in said
