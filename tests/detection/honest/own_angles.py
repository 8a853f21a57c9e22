"""Other angles: in float64, by a quotient, by powers that are an ulp or two off; shown, and within a fused kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from detection.honest.ours import Change, Patch, ours
from detection.honest.variation import Variation
from qwen3_encdec import rope
from qwen3_golden import pb
from qwen3_parity.recording.ours.network import EncoderDecoder

Pair = tuple[Tensor, Tensor]
Angles = Callable[[Tensor, Tensor], Tensor]
"""`angles(inv_freq[pair], position_ids[batch, seq])` -> `[batch, seq, pair]`."""


def tables_of(angles: Angles) -> Change:
    """Our model turning by the cos and sin of `angles`."""

    def tables(inv_freq: Tensor, position_ids: Tensor, dtype: torch.dtype, factor: float = 1.0) -> Pair:
        found = angles(inv_freq, position_ids)
        doubled = torch.cat((found, found), dim=-1)
        return (doubled.cos() * factor).float().to(dtype), (doubled.sin() * factor).float().to(dtype)

    def change(_runner: EncoderDecoder) -> Iterable[Patch]:
        return ((rope, "rotary_tables", tables),)

    return change


def _exact(inv_freq: Tensor, position_ids: Tensor) -> Tensor:
    return position_ids[..., None].double() * inv_freq.double()


def _quotient(inv_freq: Tensor, position_ids: Tensor) -> Tensor:
    return position_ids[..., None].float() / (1 / inv_freq)


def _off(ulps: int) -> Angles:
    """The float32 product with every frequency so many ulp larger, but for theta^0, which is 1 in every library."""

    def angles(inv_freq: Tensor, position_ids: Tensor) -> Tensor:
        bits = inv_freq.float().contiguous().view(torch.int32) + ulps
        moved = torch.where(inv_freq == 1, inv_freq, bits.view(torch.float32))
        return position_ids[..., None].float() * moved

    return angles


def _fused(row: pb.Tap) -> bool:
    """What a kernel shows that makes its angles itself."""
    return not row.pattern.endswith((".inv_freq", "cos", "sin"))


VARIATIONS = (
    Variation("angles_float64", "position × inv_freq in float64", ours(tables_of(_exact))),
    Variation("angles_quotient", "position / theta^k", ours(tables_of(_quotient))),
    Variation("fused_float64", "angles in float64, not shown", ours(tables_of(_exact), shows=_fused)),
    Variation("fused_quotient", "position / theta^k, not shown", ours(tables_of(_quotient), shows=_fused)),
    *(Variation(f"fused_{'above' if ulps > 0 else 'below'}_{abs(ulps)}",
        f"every frequency off by {ulps:+d} ulp, angles not shown",
        ours(tables_of(_off(ulps)), shows=_fused)) for ulps in (1, 2, -1, -2)),
)  # fmt: skip
