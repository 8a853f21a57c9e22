"""What users run: SDPA called by the model itself, without the recorder's attention function in between.

A decode step then reads its keys in the order of the cache's buffer and may leave its mask out. Only hooks on modules
see such a run; what lives inside attention is not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen3_encdec import attention, modeling_qwen3_decoder
from qwen3_encdec.backends import SdpaMask
from qwen3_golden import GOLDEN_ROOT, pb, read, table
from qwen3_parity.check import check
from qwen3_parity.implementation import EncoderDecoder, encoder_decoder
from qwen3_parity.record import record
from qwen3_parity.verdict import Verdicts

CASES = [
    *("encoder/ragged", "encoder/one_token", "decoder/ragged_decode", "decoder/window_chunks", "encdec/ragged"),
    *("encdec/window", "encdec/unrotated", "encdec/unpadded", "encdec/second_request", "generation/beams"),
]
INSIDE = tuple(
    f"attn.{name}"
    for name in (
        *("q_rope", "k_rope", "mask", "scores", "probs", "context"),
        *("cache_keys", "cache_values", "cache_encoder_keys", "cache_encoder_values"),
    )
)
"""How the names of taps end that only the recorder's attention function sees."""


def directly(case: pb.Case, checkpoints: Mapping[str, Path]) -> EncoderDecoder:
    """Our model under plain SDPA, showing what stands outside of attention."""
    runner = encoder_decoder(case, checkpoints, backend="sdpa", dtype=torch.float32)
    assert isinstance(runner, EncoderDecoder)
    runner.model.set_attn_implementation("sdpa")
    shown = [row.pattern for row in table() if not row.pattern.endswith(INSIDE)]
    runner.run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.SDPA, materialised=shown)
    return runner


def judged(name: str, folder: Path) -> Verdicts:
    golden = GOLDEN_ROOT / "cases" / f"{name}.pb"
    record(read(golden), folder / "direct.pb", directly)
    return check(golden, folder / "direct.pb")


@pytest.mark.parametrize("name", CASES)
def test_a_run_without_the_recorders_attention_is_within_budget(name: str, tmp_path: Path) -> None:
    found = judged(name, tmp_path)
    assert (found.word, found.problems) == ("parity", [])


def test_the_direct_path_is_taken_with_and_without_a_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[int, bool]] = set()
    plain = attention.sdpa_attention

    def watched(query: torch.Tensor, *given: torch.Tensor | None, **numbers: float) -> torch.Tensor:
        seen.add((min(query.shape[2], 2), given[2] is None))
        return plain(query, *given, **numbers)  # type: ignore[arg-type]

    monkeypatch.setattr(attention, "sdpa_attention", watched)
    for name in ("encdec/ragged", "encdec/unpadded"):
        judged(name, tmp_path)
    assert seen == {(1, True), (1, False), (2, True), (2, False)}


def test_no_kernel_is_asked_for_a_mask_and_shared_keys_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[bool, bool]] = set()
    plain = torch.nn.functional.scaled_dot_product_attention

    def watched(query: Any, key: Any, value: Any, attn_mask: Any = None, *rest: Any, **named: Any) -> torch.Tensor:
        seen.add((attn_mask is not None, bool(named.get("enable_gqa"))))
        return plain(query, key, value, attn_mask, *rest, **named)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    for name in ("encdec/ragged", "encdec/unpadded"):
        judged(name, tmp_path)
    assert seen == {(True, False), (False, False), (False, True)}


@pytest.mark.parametrize("name", ["encdec/ragged", "generation/beams"])
def test_a_mask_in_its_own_order_over_keys_in_the_buffers_diverges(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = read(GOLDEN_ROOT / "cases" / f"{name}.pb")["input.encoder_input_ids", 0].array.shape[1]

    def unrolled(mask: torch.Tensor | None) -> SdpaMask:
        return SdpaMask(None if mask is None else mask.roll(-length, dims=-1))

    monkeypatch.setattr(modeling_qwen3_decoder, "SdpaMask", unrolled)
    assert judged(name, tmp_path).word == "divergence"
