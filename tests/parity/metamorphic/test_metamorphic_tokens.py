"""Who sees whom, by changing one token: nothing before it in the decoder, everything in the encoder, never padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qwen3_encdec import masks, modeling_qwen3_encoder
from qwen3_parity.judge.budgets import headroom

Seed = Callable[[pytest.MonkeyPatch], None]
FEW = settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NAMES = ["rotated", "unrotated", "qwen2"]
DRAWN = {"row": st.integers(0, 2), "which": st.floats(0, 1), "token": st.integers(2, 189)}
"""A batch row, how far into its real tokens, and the new id."""


def changed(request: Any, side: str, row: int, slot: int, token: int) -> Any:
    """The request with one id of its source or target set to another one."""
    ids = getattr(request, side).clone()
    ids[row, slot] = token if ids[row, slot] != token else token - 1
    return replace(request, **{side: ids})


def slot_of(request: Any, side: str, row: int, which: float) -> int:
    """The slot of a real token of a row, `which` of the way through them."""
    real = torch.nonzero(getattr(request, f"{side}_mask")[row])[:, 0].tolist()
    return int(real[min(int(which * len(real)), len(real) - 1)])


def shares_by_row(subject: Any, name: str, actual: Any, expected: Any) -> Any:
    """RMS of the difference in each slot of each row, `[batch, slot]`, in budgets of one row."""
    distance = np.sqrt(np.mean((actual[name].astype(np.float64) - expected[name]) ** 2, axis=-1))
    return distance / (headroom("run").row * subject.floors[name].row)


def difference_before(subject: Any, row: int, which: float, token: int) -> tuple[float, float]:
    """Change a target token: the largest change where there may be none (bits), the smallest share from it on."""
    request = subject.request
    slot = slot_of(request, "target", row, which)
    before, after = subject.answer(), subject.answer(changed(request, "target", row, slot, token))
    real = request.target_mask.numpy()
    allowed = np.zeros_like(real)
    allowed[row, slot:] = True
    untouched = np.abs(after["logits"] - before["logits"])[real & ~allowed].max(initial=0)
    for name in (name for name in before if "cache_" in name and "encoder" not in name):
        moved = np.abs(after[name] - before[name]).transpose(0, 2, 1, 3)[real & ~allowed]
        untouched = max(untouched, moved.max(initial=0))
    return float(untouched), float(shares_by_row(subject, "logits", after, before)[real & allowed].min())


def reach_of_a_source_token(subject: Any, name: str, row: int, which: float, token: int) -> tuple[float, float]:
    """Change a source token: the largest change in other rows (bits), the smallest share anywhere in its own row."""
    request = subject.request
    slot = slot_of(request, "source", row, which)
    before, after = subject.answer(), subject.answer(changed(request, "source", row, slot, token))
    mask = request.source_mask if name == "encoder.norm" else request.target_mask
    real, own_row = mask.numpy(), np.zeros(mask.shape, bool)
    own_row[row] = True
    others = np.abs(after[name] - before[name])[real & ~own_row].max(initial=0)
    return float(others), float(shares_by_row(subject, name, after, before)[real & own_row].min())


def difference_by_padding(subject: Any, token: int) -> float:
    """Set every padded id to another token: the largest change of anything that is judged (bits)."""
    request = subject.request
    repadded = replace(
        request,
        source=request.source.where(request.source_mask, token),
        target=request.target.where(request.target_mask, token),
    )
    before, after, scope = subject.answer(), subject.answer(repadded), subject.scope(request)
    judged = {name: np.broadcast_to(scope[name], value.shape) for name, value in before.items()}
    return max(float(np.abs(after[name] - value)[judged[name]].max(initial=0)) for name, value in before.items())


def look_ahead(patch: pytest.MonkeyPatch) -> None:
    plain = masks.own_mask

    def leaking(*arguments: Any) -> torch.Tensor:
        mask = plain(*arguments)
        mask.diagonal(1, -2, -1).zero_()  # the next token of each query, padded or not
        return mask

    patch.setattr(masks, "own_mask", leaking)


def causal_encoder(patch: pytest.MonkeyPatch) -> None:
    plain = modeling_qwen3_encoder.encoder_mask

    def causal(mask: Any, batch: int, length: int, *rest: Any) -> torch.Tensor:
        additive = plain(mask, batch, length, *rest)
        return additive.masked_fill(torch.ones(length, length).triu(1).bool(), torch.finfo(additive.dtype).min)

    patch.setattr(modeling_qwen3_encoder, "encoder_mask", causal)


def visible_padding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(masks, "padding_visible", lambda mask, name, shape: torch.ones(shape, dtype=torch.bool))


def causal_memory(patch: pytest.MonkeyPatch) -> None:
    plain = masks.memory_mask

    def leaking(mask: Any, batch: int, query: int, length: int, dtype: Any, device: Any) -> torch.Tensor:
        additive = plain(mask, batch, query, length, dtype, device).expand(-1, -1, query, -1)
        return additive.masked_fill(torch.ones(query, length, dtype=torch.bool).triu(1), torch.finfo(dtype).min)

    patch.setattr(masks, "memory_mask", leaking)


@pytest.mark.parametrize("name", [*NAMES, "window", "causal"])
@FEW
@given(**DRAWN)
def test_a_target_token_changes_nothing_before_it_and_everything_it_reaches(
    name: str, row: int, which: float, token: int, subject: Any
) -> None:
    untouched, reached = difference_before(subject(name), row, which, token)
    assert untouched == 0
    assert reached > 1


def test_a_decoder_that_looks_one_token_ahead_is_found(subject: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    look_ahead(monkeypatch)
    untouched, _ = difference_before(subject("rotated"), 0, 0.5, 77)
    assert untouched > 1e-2


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(**DRAWN)
def test_an_encoder_token_changes_every_encoder_row_before_it_and_after(
    name: str, row: int, which: float, token: int, subject: Any
) -> None:
    others, reached = reach_of_a_source_token(subject(name), "encoder.norm", row, which, token)
    assert others == 0
    assert reached > 1


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(**DRAWN)
def test_an_encoder_token_changes_every_decoder_row(
    name: str, row: int, which: float, token: int, subject: Any
) -> None:
    others, reached = reach_of_a_source_token(subject(name), "logits", row, which, token)
    assert others == 0
    assert reached > 1


@pytest.mark.parametrize(
    ("seed", "name"), [(causal_encoder, "encoder.norm"), (causal_memory, "logits")], ids=["encoder", "memory"]
)
def test_a_causal_mask_where_there_should_be_none_is_found(
    seed: Seed, name: str, subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    causal_encoder(monkeypatch)
    seed(monkeypatch)
    _, reached = reach_of_a_source_token(subject("rotated"), name, 0, 0.99, 77)
    assert reached == 0


@pytest.mark.parametrize("name", [*NAMES, "window", "causal"])
@pytest.mark.parametrize("token", [2, 97, 189])
def test_a_masked_token_changes_nothing(name: str, token: int, subject: Any) -> None:
    assert difference_by_padding(subject(name), token) == 0


def test_padding_that_is_seen_is_found(subject: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    visible_padding(monkeypatch)
    assert difference_by_padding(subject("rotated"), 97) > 1e-2
