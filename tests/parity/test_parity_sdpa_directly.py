"""What users run: SDPA called by the model itself, without the recorder's attention function in between.

A decode step then reads its keys in the order of the cache's buffer and may leave its mask out. Only hooks on modules
see such a run; of what lives inside attention the cache alone is recorded, in runs of one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from detection.honest.batches import Regrouped
from qwen3_encdec import attention, modeling_qwen3_decoder
from qwen3_encdec.backends import SdpaMask
from qwen3_golden import GOLDEN_ROOT, pb, read, table
from qwen3_parity.check import check
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours.network import EncoderDecoder, encoder_decoder
from qwen3_parity.recording.record import Tap, record

CASES = [
    *("encoder/ragged", "encoder/one_token", "decoder/ragged_decode", "decoder/window_chunks", "encdec/ragged"),
    *("encdec/window", "encdec/unrotated", "encdec/unpadded", "encdec/second_request", "generation/merged"),
]
INSIDE = tuple(
    f"attn.{name}"
    for name in (
        *("q_rope", "k_rope", "mask", "scores", "probs", "context"),
        *("cache_keys", "cache_values", "cache_encoder_keys", "cache_encoder_values"),
    )
)
"""How the names of taps end that only the recorder's attention function sees."""
ROW_BY_ROW = ["encdec/ragged", "encdec/window", "encdec/unrotated", "encdec/qwen2", "encdec/bfloat16"]
IN_CACHE = {"cache_keys": (0, 0), "cache_values": (0, 1), "cache_encoder_keys": (1, 0), "cache_encoder_values": (1, 1)}
"""A tap of the cache: its half (the decoder's, the encoder's), and keys or values."""


def directly(case: pb.Case, checkpoints: Mapping[str, Path]) -> EncoderDecoder:
    """Our model under plain SDPA, showing what stands outside of attention."""
    runner = encoder_decoder(case, checkpoints, backend="sdpa", dtype=torch.float32)
    assert isinstance(runner, EncoderDecoder)
    runner.model.set_attn_implementation("sdpa")
    shown = [row.pattern for row in table() if not row.pattern.endswith(INSIDE)]
    runner.run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.SDPA, materialised=shown)
    return runner


class Alone(EncoderDecoder):
    """Our model under plain SDPA, looked at from outside of its layers."""

    @contextmanager
    def _recorded(self, tap: Tap, step: int, records: Callable[[str], bool], encoder_length: int) -> Iterator[None]:
        decoder: Any = self.model.decoder

        def outside(_module: Any, _args: Any, output: Any) -> None:
            cache = output.past_key_values
            halves = cache.self_attention_cache, cache.cross_attention_cache
            for index in range(len(decoder.layers)):
                for name, (half, which) in IN_CACHE.items():
                    layer, place = halves[half].layers[index], f"decoder.layers.{index}.merged_attn.{name}"
                    if records(place):
                        tap(place, step, (layer.keys, layer.values)[which].clone())
            tap("decoder.norm", step, output.last_hidden_state)

        handle = decoder.register_forward_hook(outside)
        try:
            yield
        finally:
            handle.remove()


def row_by_row(case: pb.Case, checkpoints: Mapping[str, Path]) -> Regrouped:
    """Our model under plain SDPA, each row of the request for itself, showing its cache and what it says."""
    bfloat16 = read(GOLDEN_ROOT / "cases" / f"{case.name}.pb").run.arithmetic == pb.ARITHMETIC_BF16
    dtype = torch.bfloat16 if bfloat16 else torch.float32
    runner = encoder_decoder(case, checkpoints, backend="sdpa", dtype=dtype)
    assert isinstance(runner, EncoderDecoder)
    runner.__class__ = Alone
    runner.model.set_attn_implementation("sdpa")
    in_cache = (f"decoder.layers.{{layer}}.merged_attn.{name}" for name in IN_CACHE)
    arithmetic = pb.ARITHMETIC_BF16 if bfloat16 else pb.ARITHMETIC_F32
    runner.run = pb.Run(arithmetic=arithmetic, backend=pb.SDPA, materialised=["decoder.norm", "logits", *in_cache])
    return Regrouped(runner, lambda rows: [[row] for row in range(rows)])


def judged(name: str, folder: Path, factory: Callable[..., Any] = directly) -> Verdicts:
    golden = GOLDEN_ROOT / "cases" / f"{name}.pb"
    record(read(golden), folder / "direct.pb", factory)
    return check(golden, folder / "direct.pb")


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", CASES)
def test_a_run_without_the_recorders_attention_is_within_budget(name: str, tmp_path: Path) -> None:
    verdicts = judged(name, tmp_path)
    assert (verdicts.word, verdicts.problems) == ("parity", [])


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_a_row_alone_is_within_budget_in_what_it_caches_and_says(name: str, tmp_path: Path) -> None:
    verdicts = judged(name, tmp_path, row_by_row)
    steps = read(GOLDEN_ROOT / "cases" / f"{name}.pb").case.steps
    assert (verdicts.word, verdicts.problems) == ("parity", [])
    assert verdicts.compared >= 6 * len(steps)


def test_the_direct_path_is_taken_with_and_without_a_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: set[tuple[int, bool]] = set()
    plain = attention.sdpa_attention

    def watched(query: torch.Tensor, *operands: torch.Tensor | None, **numbers: float) -> torch.Tensor:
        calls.add((min(query.shape[2], 2), operands[2] is None))
        return plain(query, *operands, **numbers)  # type: ignore[arg-type]

    monkeypatch.setattr(attention, "sdpa_attention", watched)
    for name in ("encdec/ragged", "encdec/unpadded"):
        judged(name, tmp_path)
    assert calls == {(1, True), (1, False), (2, True), (2, False)}


def test_no_kernel_is_asked_for_a_mask_and_shared_keys_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: set[tuple[bool, bool]] = set()
    plain = torch.nn.functional.scaled_dot_product_attention

    def watched(query: Any, key: Any, value: Any, attn_mask: Any = None, *rest: Any, **named: Any) -> torch.Tensor:
        calls.add((attn_mask is not None, bool(named.get("enable_gqa"))))
        return plain(query, key, value, attn_mask, *rest, **named)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    for name in ("encdec/ragged", "encdec/unpadded"):
        judged(name, tmp_path)
    assert calls == {(True, False), (False, False), (False, True)}


@pytest.mark.parametrize("name", ["encdec/ragged", "generation/merged"])
def test_a_mask_in_its_own_order_over_keys_in_the_buffers_diverges(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = read(GOLDEN_ROOT / "cases" / f"{name}.pb")["input.encoder_input_ids", 0].array.shape[1]

    def unrolled(mask: torch.Tensor | None) -> SdpaMask:
        return SdpaMask(None if mask is None else mask.roll(-length, dims=-1))

    monkeypatch.setattr(modeling_qwen3_decoder, "SdpaMask", unrolled)
    assert judged(name, tmp_path).word == "divergence"
